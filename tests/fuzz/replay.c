/* Runs a fuzz target over files and folders of inputs, without a fuzzer:
 * what was found stays fixed. */

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned n_replayed;

static void replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    /* Exactly as large as the input, so that a sanitizer sees one byte too many. */
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    if (data == NULL || fread(data, 1, (size_t)size, file) != (size_t)size) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    n_replayed++;
}

static void replay_folder(const char *folder)
{
    DIR *entries = opendir(folder);
    if (entries == NULL && errno == ENOENT) {
        return; /* nothing was found yet */
    }
    if (entries == NULL) {
        perror(folder);
        exit(EXIT_FAILURE);
    }
    for (const struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        char path[4096];
        struct stat stat_of;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        if (stat(path, &stat_of) == 0 && S_ISREG(stat_of.st_mode)) {
            replay_file(path);
        }
    }
    closedir(entries);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        replay_folder(argv[i]);
    }
    printf("%u inputs replayed\n", n_replayed);
    return n_replayed > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
