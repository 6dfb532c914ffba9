/* sluice cert self-signed: a certificate and a key for trying out TLS. Both are written beside
 * their places first, and then renamed, so that no reader sees half of one. */

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app/command.h"
#include "base/clock.h"
#include "base/span.h"
#include "tls/certificate.h"

#define CERT_FILE "cert.pem"
#define KEY_FILE "key.pem"
#define DAYS "365"

/* One of both files. */
struct output {
    const char *path;
    struct span contents;
    mode_t mode;
    char draft[PATH_MAX]; /* where it is written first; "": nothing is there */
};

static bool fail(const char *path)
{
    fprintf(stderr, "sluice cert: %s: %s\n", path, strerror(errno));
    return false;
}

/* False: reported. */
static bool is_free(const char *path)
{
    struct stat file;
    if (lstat(path, &file) == 0) {
        fprintf(stderr, "sluice cert: %s: is there already; --force replaces it\n", path);
        return false;
    }
    return errno == ENOENT || fail(path);
}

static bool write_all(int fd, struct span rest)
{
    while (rest.len > 0) {
        const ssize_t n = write(fd, rest.data, rest.len);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        rest = n > 0 ? span_of(rest.data + n, rest.len - (size_t)n) : rest;
    }
    return true;
}

/* False: reported. */
static bool write_draft(struct output *output)
{
    const int len = snprintf(output->draft, sizeof(output->draft), "%s.XXXXXX", output->path);
    if (len < 0 || (size_t)len >= sizeof(output->draft)) {
        output->draft[0] = '\0';
        errno = ENAMETOOLONG;
        return fail(output->path);
    }
    const int fd = mkstemp(output->draft);
    if (fd < 0) {
        output->draft[0] = '\0';
        return fail(output->path);
    }
    const bool is_written =
        write_all(fd, output->contents) && fchmod(fd, output->mode) == 0 && fsync(fd) == 0;
    const bool is_good = is_written || fail(output->path);
    close(fd);
    return is_good;
}

/* False: reported. */
static bool put(struct output *output)
{
    char path[PATH_MAX];
    if (rename(output->draft, output->path) != 0) {
        return fail(output->path);
    }
    output->draft[0] = '\0';
    printf("wrote %s\n", realpath(output->path, path) != NULL ? path : output->path);
    return true;
}

static bool write_both(struct output *cert, struct output *key)
{
    const bool is_good = write_draft(key) && write_draft(cert) && put(key) && put(cert);
    if (cert->draft[0] != '\0') {
        (void)unlink(cert->draft);
    }
    if (key->draft[0] != '\0') {
        (void)unlink(key->draft);
    }
    return is_good;
}

/* False: reported. */
static bool make(char **arguments, size_t n, unsigned days, struct self_signed *made)
{
    struct span names[SELF_SIGNED_NAMES_MAX];
    size_t bad = 0;
    if (n > SELF_SIGNED_NAMES_MAX) {
        fprintf(stderr, "sluice cert: more than %d names\n", SELF_SIGNED_NAMES_MAX);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        names[i] = span_of_text(arguments[i]);
    }
    const enum status status =
        self_signed_make(names, n, days, (int64_t)clock_wall_s(), made, &bad);
    if (status == STATUS_INVALID) {
        fprintf(stderr, "sluice cert: %s: is neither a host name nor an IP address\n",
                arguments[bad]);
    } else if (status != STATUS_OK) {
        fputs("sluice cert: OpenSSL made no certificate\n", stderr);
    }
    return status == STATUS_OK;
}

static int cert_command(int argc, char **argv)
{
    struct output cert = {.path = CERT_FILE, .mode = 0644};
    struct output key = {.path = KEY_FILE, .mode = 0600};
    const char *days_text = DAYS;
    bool is_forced = false;
    struct self_signed made;
    uint64_t days;
    int status;
    const struct command_option options[] = {
        {.name = "out-cert",
         .argument = "FILE",
         .help = "write the certificate there (" CERT_FILE ")",
         .value = &cert.path},
        {.name = "out-key",
         .argument = "FILE",
         .help = "write the private key there (" KEY_FILE ")",
         .value = &key.path},
        {.name = "days",
         .argument = "N",
         .help = "how long it is valid (" DAYS ")",
         .value = &days_text},
        {.name = "force", .help = "replace files that are there", .flag = &is_forced},
    };
    const int first = command_read(&CERT_COMMAND, options, ARRAY_LEN(options), argc, argv, &status);
    if (first == 0) {
        return status;
    }
    if (strcmp(argv[first], "self-signed") != 0) {
        return command_usage(&CERT_COMMAND);
    }
    if (strcmp(cert.path, key.path) == 0) {
        fputs("sluice cert: --out-cert and --out-key are one file\n", stderr);
        return EXIT_USAGE;
    }
    if (!span_to_u64(span_of_text(days_text), SELF_SIGNED_DAYS_MAX, &days) || days == 0) {
        fprintf(stderr, "sluice cert: --days is a number from 1 to %d\n", SELF_SIGNED_DAYS_MAX);
        return EXIT_USAGE;
    }
    if (!is_forced && (!is_free(cert.path) || !is_free(key.path))) {
        return EXIT_FAILED;
    }
    if (!make(argv + first + 1, (size_t)(argc - first - 1), (unsigned)days, &made)) {
        return EXIT_FAILED;
    }
    cert.contents = made.cert;
    key.contents = made.key;
    const bool is_written = write_both(&cert, &key);
    self_signed_free(&made);
    return is_written ? EXIT_DONE : EXIT_FAILED;
}

const struct command CERT_COMMAND = {
    .name = "cert",
    .arguments = "self-signed NAME...",
    .summary = "make a self-signed certificate and its key, for trying out TLS",
    .notes = "NAME is a host name, *.HOST, or an IP address. Without --out-cert and --out-key the\n"
             "files are " CERT_FILE " and " KEY_FILE " in the current folder.\n",
    .run = cert_command,
};
