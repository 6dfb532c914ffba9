/* Failures: a file that cannot be read, or whose first line is no token, is told with what to
 * do; what is in it is not. */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "admin/access.h"
#include "base/limits.h"
#include "base/log.h"

static enum status tell(struct span path, const char *error, enum status status)
{
    char buffer[512];
    struct text file = text_of(buffer, sizeof(buffer));
    text_add_logfmt(&file, path);
    log_error("admin.access", "cannot read a token",
              "file=%.*s err=\"%s\" hint=\"its first line is the token, %d to %d visible "
              "characters: openssl rand -hex 32\"",
              SPAN_ARGS(text_span(&file)), error, ADMIN_TOKEN_BYTES_MIN, ADMIN_TOKEN_BYTES_MAX);
    return status;
}

static void warn_of_readers(FILE *file, struct span path)
{
    struct stat stat;
    if (fstat(fileno(file), &stat) == 0 && (stat.st_mode & 07) != 0) {
        char buffer[512];
        struct text name = text_of(buffer, sizeof(buffer));
        text_add_logfmt(&name, path);
        log_warn("admin.access", "everybody on this machine may read a token",
                 "file=%.*s hint=\"chmod 0640\"", SPAN_ARGS(text_span(&name)));
    }
}

static bool is_token(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] <= ' ' || text.data[i] > '~') {
            return false;
        }
    }
    return text.len >= ADMIN_TOKEN_BYTES_MIN && text.len <= ADMIN_TOKEN_BYTES_MAX;
}

static enum status read_file(struct span path, struct secret *secret)
{
    char line[ADMIN_TOKEN_BYTES_MAX + 3]; /* CR, LF, NUL */
    FILE *file = fopen(path.data, "re");
    if (file == NULL) {
        return tell(path, strerror(errno), STATUS_IO);
    }
    warn_of_readers(file, path);
    setvbuf(file, NULL, _IONBF, 0);
    enum status status = STATUS_OK;
    if (fgets(line, sizeof(line), file) == NULL) {
        status = tell(path, ferror(file) ? strerror(errno) : "it is empty", STATUS_IO);
    } else {
        const struct span token = span_of(line, strcspn(line, "\r\n"));
        if (is_token(token)) {
            secret_init(secret, token);
        } else {
            status = tell(path, "this is no token", STATUS_INVALID);
        }
    }
    secret_wipe(line, sizeof(line));
    fclose(file);
    return status;
}

static enum status load_token(const struct admin_token *from, struct access_token *token)
{
    if (from->path.len > 0) {
        const enum status status = read_file(from->path, &token->secret);
        token->is_set = status == STATUS_OK;
        return status;
    }
    *token = (struct access_token){.is_set = from->is_said, .secret = from->secret};
    return STATUS_OK;
}

enum status access_rules_load(const struct admin_section *section, struct access_rules *rules)
{
    *rules = (struct access_rules){.hosts = section->hosts, .n_hosts = section->n_hosts};
    const enum status status = load_token(&section->token, &rules->token);
    return status == STATUS_OK ? load_token(&section->read_token, &rules->read_token) : status;
}
