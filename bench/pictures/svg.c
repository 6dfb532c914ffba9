#include "svg.h"

#include <stdarg.h>

enum { TEXT_BYTES_MAX = 256 };

/* "12.3", or "12". */
struct number {
    char text[16];
};

static struct number number_of(int tenths)
{
    struct number number;
    if (tenths % 10 == 0) {
        snprintf(number.text, sizeof(number.text), "%d", tenths / 10);
    } else {
        snprintf(number.text, sizeof(number.text), "%d.%d", tenths / 10, tenths % 10);
    }
    return number;
}

static void put_escaped(FILE *file, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        default:
            putc(*text, file);
        }
    }
}

void svg_begin(FILE *file, int width, int height, const char *title, const char *story)
{
    const struct number w = number_of(width);
    const struct number h = number_of(height);
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%s\" height=\"%s\""
            " viewBox=\"0 0 %s %s\" role=\"img\""
            " font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n<title>",
            w.text, h.text, w.text, h.text);
    put_escaped(file, title);
    fputs("</title>\n<desc>", file);
    put_escaped(file, story);
    fputs("</desc>\n", file);
}

void svg_end(FILE *file)
{
    fputs("</svg>\n", file);
}

void svg_rect(FILE *file, struct box box, const char *paint)
{
    fprintf(file, "<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" %s/>\n",
            number_of(box.at.x).text, number_of(box.at.y).text, number_of(box.width).text,
            number_of(box.height).text, paint);
}

void svg_line(FILE *file, struct point from, struct point to, const char *paint)
{
    fprintf(file, "<line x1=\"%s\" y1=\"%s\" x2=\"%s\" y2=\"%s\" %s/>\n", number_of(from.x).text,
            number_of(from.y).text, number_of(to.x).text, number_of(to.y).text, paint);
}

void svg_circle(FILE *file, struct point centre, int radius, const char *paint)
{
    fprintf(file, "<circle cx=\"%s\" cy=\"%s\" r=\"%s\" %s/>\n", number_of(centre.x).text,
            number_of(centre.y).text, number_of(radius).text, paint);
}

void svg_text(FILE *file, struct point at, const char *paint, const char *format, ...)
{
    char text[TEXT_BYTES_MAX];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof(text), format, values);
    va_end(values);

    fprintf(file, "<text x=\"%s\" y=\"%s\" %s>", number_of(at.x).text, number_of(at.y).text, paint);
    put_escaped(file, text);
    fputs("</text>\n", file);
}

void svg_steps_begin(FILE *file, struct point at, const char *paint)
{
    fprintf(file, "<path fill=\"none\" %s d=\"M%s %s", paint, number_of(at.x).text,
            number_of(at.y).text);
}

void svg_steps_to(FILE *file, struct point at)
{
    fprintf(file, "H%sV%s", number_of(at.x).text, number_of(at.y).text);
}

void svg_steps_end(FILE *file)
{
    fputs("\"/>\n", file);
}
