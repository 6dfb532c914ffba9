#include "policy/files.h"

#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/text.h"

bool files_keep(char ***paths, size_t *n, const char *path)
{
    char **larger = realloc(*paths, (*n + 1) * sizeof(*larger));
    if (larger == NULL) {
        return false;
    }
    *paths = larger;
    larger[*n] = strdup(path);
    return larger[*n] != NULL && ++*n > 0;
}

static uint64_t version_of(const char *path, const struct stat *file)
{
    static const struct hash_key KEY = {.bytes = {0}};
    char bytes[PATH_MAX + 128];
    struct text text = text_of(bytes, sizeof(bytes));
    text_add_format(&text, "%llu %llu %lld %lld.%ld %lld.%ld %s", (unsigned long long)file->st_dev,
                    (unsigned long long)file->st_ino, (long long)file->st_size,
                    (long long)file->st_mtim.tv_sec, file->st_mtim.tv_nsec,
                    (long long)file->st_ctim.tv_sec, file->st_ctim.tv_nsec, path);
    return hash_table(&KEY, text_span(&text)).low;
}

void files_add_version(uint64_t *version, const char *path)
{
    struct stat file;
    *version += stat(path, &file) == 0 ? version_of(path, &file) : 0;
}

static bool is_pattern(const char *path)
{
    return strpbrk(path, "*?[") != NULL;
}

bool files_each_path(const char *pattern, bool (*on_path)(void *context, const char *path),
                     void *context)
{
    glob_t found;
    if (!is_pattern(pattern)) {
        return on_path(context, pattern);
    }
    const int result = glob(pattern, 0, NULL, &found);
    bool is_good = result == 0 || result == GLOB_NOMATCH || result == GLOB_ABORTED;
    for (size_t i = 0; result == 0 && is_good && i < found.gl_pathc; i++) {
        is_good = on_path(context, found.gl_pathv[i]);
    }
    globfree(&found);
    return is_good;
}

static bool add_version(void *version, const char *path)
{
    files_add_version(version, path);
    return true;
}

struct loader_versions loader_files_look(const struct loader_files *files)
{
    struct loader_versions versions = {.includes = 0};
    for (size_t i = 0; i < files->n_includes; i++) {
        (void)!files_each_path(files->includes[i], add_version, &versions.includes);
    }
    for (size_t i = 0; i < files->n_certificates; i++) {
        files_add_version(&versions.certificates, files->certificates[i]);
    }
    return versions;
}

static void free_paths(char **paths, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(paths[i]);
    }
    free(paths);
}

void loader_files_free(struct loader_files *files)
{
    free_paths(files->includes, files->n_includes);
    free_paths(files->certificates, files->n_certificates);
    *files = (struct loader_files){.n_includes = 0};
}
