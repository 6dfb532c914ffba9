/* pictures FOLDER: write the picture of every algorithm into FOLDER, which must exist. */

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "limit/algorithm.h"
#include "limit/algorithms.h"
#include "pictures.h"
#include "scene.h"

enum { PATH_BYTES_MAX = 4096 };

static bool write_file(const char *folder, const struct picture *picture, const struct limit *limit)
{
    static struct request requests[SCENE_REQUESTS];
    char path[PATH_BYTES_MAX];
    const int len = snprintf(path, sizeof(path), "%s/%s.svg", folder, picture->file);
    FILE *file = len < (int)sizeof(path) ? fopen(path, "w") : NULL;
    if (file == NULL) {
        fprintf(stderr, "pictures: cannot write %s/%s.svg\n", folder, picture->file);
        return false;
    }
    scene_play(limit, requests);
    draw(file, picture, limit, requests);
    const bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed) {
        fprintf(stderr, "pictures: cannot write %s\n", path);
        return false;
    }
    return true;
}

static bool make(const char *folder, const struct picture *picture)
{
    struct limit limit = {.name = span_of_text(picture->algorithm)};
    struct limit_spec spec = picture->spec;
    spec.algorithm = algorithm_find(span_of_text(picture->algorithm));
    if (spec.algorithm == NULL) {
        fprintf(stderr, "pictures: %s: unknown algorithm %s\n", picture->file, picture->algorithm);
        return false;
    }
    const char *fault = limit_init(&limit, &spec);
    if (fault != NULL) {
        fprintf(stderr, "pictures: %s: %s\n", picture->file, fault);
        return false;
    }
    return write_file(folder, picture, &limit);
}

static bool is_drawn(const char *algorithm, const struct picture *pictures, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(pictures[i].algorithm, algorithm) == 0) {
            return true;
        }
    }
    return false;
}

static bool all_are_drawn(const struct picture *pictures, size_t n_pictures)
{
    size_t n;
    const struct algorithm *const *algorithms = algorithm_all(&n);
    for (size_t i = 0; i < n; i++) {
        if (!is_drawn(algorithms[i]->name, pictures, n_pictures)) {
            fprintf(stderr, "pictures: %s has no picture: give it a row in pictures.c\n",
                    algorithms[i]->name);
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    size_t n;
    const struct picture *pictures = pictures_all(&n);
    if (argc != 2) {
        fputs("usage: pictures FOLDER\n", stderr);
        return EXIT_FAILURE;
    }
    bool done = all_are_drawn(pictures, n);
    for (size_t i = 0; i < n && done; i++) {
        done = make(argv[1], &pictures[i]);
    }
    return done ? EXIT_SUCCESS : EXIT_FAILURE;
}
