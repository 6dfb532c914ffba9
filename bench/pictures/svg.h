/* Writing SVG: shapes with whole coordinates in tenths of a pixel, so that every machine writes the
 * same bytes.
 *
 * A paint is attributes as SVG has them: `fill="#fff" stroke="none"`. Whoever opened the file looks
 * for errors when closing it. */

#ifndef PICTURES_SVG_H
#define PICTURES_SVG_H

#include <stdio.h>

#include "base/compiler.h"

struct point {
    int x, y; /* tenths of a pixel from the left and the top; >= 0 */
};

struct box {
    struct point at; /* left and top */
    int width, height;
};

/* Begin a picture of @width by @height; @title and @story say to those who
 * cannot see it what it shows. */
void svg_begin(FILE *file, int width, int height, const char *title, const char *story);
void svg_end(FILE *file);

void svg_rect(FILE *file, struct box box, const char *paint);
void svg_line(FILE *file, struct point from, struct point to, const char *paint);
void svg_circle(FILE *file, struct point centre, int radius, const char *paint);

/* printf text whose base line is at @at. */
void svg_text(FILE *file, struct point at, const char *paint, const char *format, ...)
    PRINTF_LIKE(4, 5);

/* A line that goes level and upright alone: begin, steps, end. */
void svg_steps_begin(FILE *file, struct point at, const char *paint);
void svg_steps_to(FILE *file, struct point at);
void svg_steps_end(FILE *file);

#endif /* PICTURES_SVG_H */
