#include "draw.h"

#include "steps.h"
#include "svg.h"

/* Colours that the colour-blind tell apart (Okabe and Ito), on white whatever is around. */
#define BLUE "#0072b2"
#define ORANGE "#d55e00"
#define GREEN "#009e73"
#define INK "#222"
#define GREY "#767676"
#define PALE "#e4e4e4"

#define PAINT_PAPER "fill=\"#fff\" stroke=\"" PALE "\""
#define PAINT_TITLE "font-size=\"16\" font-weight=\"bold\" fill=\"" INK "\""
#define PAINT_WORDS "font-size=\"14\" fill=\"" INK "\""
#define PAINT_FACTS "font-size=\"13\" text-anchor=\"end\" fill=\"" INK "\""
#define PAINT_CAPTION "font-size=\"12\" fill=\"" INK "\""
#define PAINT_PHASE "font-size=\"12\" font-style=\"italic\" fill=\"" GREY "\""
#define PAINT_SCALE "font-size=\"11\" text-anchor=\"end\" fill=\"" GREY "\""
#define PAINT_TIME "font-size=\"11\" text-anchor=\"middle\" fill=\"" GREY "\""
#define PAINT_GRID "stroke=\"" PALE "\""
#define PAINT_AXIS "stroke=\"" GREY "\""
#define PAINT_ADMITTED "fill=\"" BLUE "\""
#define PAINT_DENIED "fill=\"#fff\" stroke=\"" ORANGE "\" stroke-width=\"1.4\""
#define PAINT_LEFT "fill=\"" GREEN "\""
#define PAINT_ASKED_LINE "stroke=\"" GREY "\" stroke-width=\"1\""
#define PAINT_ADMITTED_LINE "stroke=\"" BLUE "\" stroke-width=\"2\""
#define PAINT_LEFT_LINE "stroke=\"" GREEN "\" stroke-width=\"2\""
#define PAINT_LIMIT_LINE "stroke=\"" INK "\" stroke-width=\"1.2\" stroke-dasharray=\"5 4\""
#define PAINT_EXCESS "fill=\"#f5c6a8\""

/* Tenths of a pixel. */
enum {
    LEFT = 440,
    PER_S = 140,
    RIGHT = LEFT + SCENE_S * PER_S,
    WIDTH = RIGHT + 200,
    TITLE_Y = 270,

    DOTS_CAPTION_Y = 560,
    DOTS_TOP = 650,
    DOT_PITCH = 70,
    DOT_RADIUS = 28,
    DOTS_BOTTOM = DOTS_TOP + 1000,
    LEAVING_HEIGHT = 180, /* the row of departures, where there is one */

    CAPTION_HEIGHT = 360, /* from a panel's bottom to the next one's top */
    CAPTION_Y = 120,      /* above a panel's top */
    SUM_PER_UNIT = 15,
    SUM_MAX = 80,
    SUM_STEP = 20,
    USED_PER_UNIT = 40,
    USED_MAX = 20,
    USED_STEP = 10,
    TIME_HEIGHT = 280,
};

enum { COLUMN_US = 500000 }; /* requests of half a second stand on each other */

static const uint64_t S_US = 1000000;

/* A field with time to the right and a count upwards. */
struct panel {
    int top, bottom; /* tenths of a pixel */
    int per_unit;
    int max, step; /* of the scale, units */
};

struct drawing {
    FILE *file;
    const struct limit *limit;
    const struct request *requests;
    bool has_waits;
    int leaving_y; /* of departures; 0: there are none */
    struct panel dots, sum, used;
};

static int x_of(uint64_t at_us)
{
    const uint64_t x = at_us * PER_S / S_US;
    return LEFT + (int)(x < SCENE_S * PER_S ? x : SCENE_S * PER_S);
}

static int y_of(const struct panel *panel, int count)
{
    return panel->bottom - count * panel->per_unit;
}

static struct drawing layout(FILE *file, const struct limit *limit, const struct request *requests)
{
    struct drawing drawing = {
        .file = file,
        .limit = limit,
        .requests = requests,
        .has_waits = limit->params.max_wait > 0,
        .dots = {.top = DOTS_TOP, .bottom = DOTS_BOTTOM, .per_unit = DOT_PITCH},
    };
    int y = DOTS_BOTTOM;
    if (drawing.has_waits) {
        drawing.leaving_y = y + LEAVING_HEIGHT / 2;
        y += LEAVING_HEIGHT;
    }
    y += CAPTION_HEIGHT;
    drawing.sum = (struct panel){y, y + SUM_MAX * SUM_PER_UNIT, SUM_PER_UNIT, SUM_MAX, SUM_STEP};
    y = drawing.sum.bottom + CAPTION_HEIGHT;
    drawing.used =
        (struct panel){y, y + USED_MAX * USED_PER_UNIT, USED_PER_UNIT, USED_MAX, USED_STEP};
    return drawing;
}

/* --- what stands behind --- */

static void draw_scale(const struct drawing *drawing, const struct panel *panel)
{
    for (int count = 0; panel->step > 0 && count <= panel->max; count += panel->step) {
        const int y = y_of(panel, count);
        svg_line(drawing->file, (struct point){LEFT, y}, (struct point){RIGHT, y}, PAINT_GRID);
        svg_text(drawing->file, (struct point){LEFT - 70, y + 40}, PAINT_SCALE, "%d", count);
    }
    svg_line(drawing->file, (struct point){LEFT, panel->bottom},
             (struct point){RIGHT, panel->bottom}, PAINT_AXIS);
}

static void draw_edges(const struct drawing *drawing)
{
    const int bottom = drawing->used.bottom;
    for (int s = 0; s <= SCENE_S; s += SCENE_PERIOD_S) {
        const int x = LEFT + s * PER_S;
        svg_line(drawing->file, (struct point){x, DOTS_TOP}, (struct point){x, bottom}, PAINT_GRID);
        svg_text(drawing->file, (struct point){x, bottom + 160}, PAINT_TIME, "%d s", s);
    }
}

static void draw_paper(const struct drawing *drawing)
{
    const struct box paper = {{0, 0}, WIDTH, drawing->used.bottom + TIME_HEIGHT};
    svg_rect(drawing->file, paper, PAINT_PAPER);
    draw_edges(drawing);
    draw_scale(drawing, &drawing->dots);
    draw_scale(drawing, &drawing->sum);
    draw_scale(drawing, &drawing->used);
}

/* --- requests, a dot each --- */

static void draw_dot(const struct drawing *drawing, const struct request *request, int place)
{
    const uint64_t column_us = request->at_us / COLUMN_US * COLUMN_US;
    const struct point centre = {
        x_of(column_us) + DOT_PITCH / 2,
        y_of(&drawing->dots, place) - DOT_PITCH / 2 - 10,
    };
    svg_circle(drawing->file, centre, DOT_RADIUS,
               request->admitted ? PAINT_ADMITTED : PAINT_DENIED);
}

static void draw_dots(const struct drawing *drawing)
{
    int place = 0;
    for (size_t i = 0; i < SCENE_REQUESTS; i++) {
        const struct request *request = &drawing->requests[i];
        const bool same_column =
            i > 0 && request->at_us / COLUMN_US == drawing->requests[i - 1].at_us / COLUMN_US;
        place = same_column ? place + 1 : 0;
        draw_dot(drawing, request, place);
        if (drawing->has_waits && request->admitted) {
            svg_circle(drawing->file, (struct point){x_of(request->leaves_us), drawing->leaving_y},
                       DOT_RADIUS, PAINT_LEFT);
        }
    }
}

static void draw_phases(const struct drawing *drawing)
{
    for (size_t i = 0; i < SCENE_PHASES; i++) {
        const int x = x_of(SCENE_PHASE[i].first_us);
        const uint64_t columns = SCENE_PHASE[i].n * SCENE_PHASE[i].gap_us / COLUMN_US;
        const int height = (int)(SCENE_PHASE[i].n / columns) * DOT_PITCH;
        svg_text(drawing->file, (struct point){x, drawing->dots.bottom - height - 90}, PAINT_PHASE,
                 "%s", SCENE_PHASE[i].label);
    }
}

/* --- counts --- */

/* Of several changes at one instant the sum alone is seen. */
static void draw_steps(const struct drawing *drawing, const struct panel *panel,
                       const struct steps *steps, const char *paint)
{
    int count = 0;
    svg_steps_begin(drawing->file, (struct point){LEFT, panel->bottom}, paint);
    for (size_t i = 0; i < steps->n && steps->at[i].at_us <= SCENE_S * S_US; i++) {
        const uint64_t at_us = steps->at[i].at_us;
        if (i + 1 == steps->n || steps->at[i + 1].at_us > at_us) {
            count = steps->at[i].count;
            svg_steps_to(drawing->file, (struct point){x_of(at_us), y_of(panel, count)});
        }
    }
    svg_steps_to(drawing->file, (struct point){RIGHT, y_of(panel, count)});
    svg_steps_end(drawing->file);
}

static void draw_sums(const struct drawing *drawing)
{
    struct steps asked = {0};
    struct steps admitted = {0};
    struct steps left = {0};
    for (size_t i = 0; i < SCENE_REQUESTS; i++) {
        const struct request *request = &drawing->requests[i];
        steps_add(&asked, request->at_us, 1);
        if (request->admitted) {
            steps_add(&admitted, request->at_us, 1);
            steps_add(&left, request->leaves_us, 1);
        }
    }
    steps_finish(&asked);
    steps_finish(&admitted);
    steps_finish(&left);
    draw_steps(drawing, &drawing->sum, &asked, PAINT_ASKED_LINE);
    draw_steps(drawing, &drawing->sum, &admitted, PAINT_ADMITTED_LINE);
    if (drawing->has_waits) {
        draw_steps(drawing, &drawing->sum, &left, PAINT_LEFT_LINE);
    }
    if (!drawing->limit->algorithm->has_slots) {
        const int end = SCENE_S * SCENE_RATE / SCENE_PERIOD_S;
        svg_line(drawing->file, (struct point){LEFT, drawing->sum.bottom},
                 (struct point){RIGHT, y_of(&drawing->sum, end)}, PAINT_LIMIT_LINE);
    }
}

/* What the limit bounds: units in (now - period, now], or requests in flight. */
static struct steps count_used(const struct drawing *drawing)
{
    struct steps used = {0};
    for (size_t i = 0; i < SCENE_REQUESTS; i++) {
        const struct request *request = &drawing->requests[i];
        if (request->admitted) {
            const bool has_slots = drawing->limit->algorithm->has_slots;
            steps_add(&used, request->leaves_us, 1);
            steps_add(&used,
                      has_slots ? request->ends_us : request->leaves_us + SCENE_PERIOD_S * S_US,
                      -1);
        }
    }
    steps_finish(&used);
    return used;
}

static void draw_excess(const struct drawing *drawing, const struct steps *used)
{
    for (size_t i = 0; i + 1 < used->n; i++) {
        const int x = x_of(used->at[i].at_us);
        const int width = x_of(used->at[i + 1].at_us) - x;
        const int over = used->at[i].count - SCENE_RATE;
        if (over > 0 && width > 0) {
            const struct point at = {x, y_of(&drawing->used, used->at[i].count)};
            const struct box box = {at, width, over * USED_PER_UNIT};
            svg_rect(drawing->file, box, PAINT_EXCESS);
        }
    }
}

static void draw_used(const struct drawing *drawing, const struct steps *used)
{
    const int y = y_of(&drawing->used, SCENE_RATE);
    draw_excess(drawing, used);
    draw_steps(drawing, &drawing->used, used,
               drawing->has_waits ? PAINT_LEFT_LINE : PAINT_ADMITTED_LINE);
    svg_line(drawing->file, (struct point){LEFT, y}, (struct point){RIGHT, y}, PAINT_LIMIT_LINE);
}

/* --- words --- */

static void caption_dot(const struct drawing *drawing, int x, const char *paint, const char *word)
{
    svg_circle(drawing->file, (struct point){x, DOTS_CAPTION_Y - 40}, DOT_RADIUS, paint);
    svg_text(drawing->file, (struct point){x + 70, DOTS_CAPTION_Y}, PAINT_CAPTION, "%s", word);
}

static void caption_line(const struct drawing *drawing, struct point at, const char *paint,
                         const char *word)
{
    const int y = at.y - 40;
    svg_line(drawing->file, (struct point){at.x, y}, (struct point){at.x + 220, y}, paint);
    svg_text(drawing->file, (struct point){at.x + 280, at.y}, PAINT_CAPTION, "%s", word);
}

static void draw_captions(const struct drawing *drawing)
{
    const int sum_y = drawing->sum.top - CAPTION_Y;
    const int used_y = drawing->used.top - CAPTION_Y;
    const bool has_slots = drawing->limit->algorithm->has_slots;

    svg_text(drawing->file, (struct point){LEFT, DOTS_CAPTION_Y}, PAINT_CAPTION, "Each request:");
    caption_dot(drawing, LEFT + 950, PAINT_ADMITTED, "admitted");
    caption_dot(drawing, LEFT + 1700, PAINT_DENIED, "denied");
    svg_text(drawing->file, (struct point){LEFT, sum_y}, PAINT_CAPTION, "Units so far:");
    caption_line(drawing, (struct point){LEFT + 900, sum_y}, PAINT_ASKED_LINE, "asked");
    caption_line(drawing, (struct point){LEFT + 1700, sum_y}, PAINT_ADMITTED_LINE, "admitted");
    if (!has_slots) {
        caption_line(drawing, (struct point){LEFT + 2700, sum_y}, PAINT_LIMIT_LINE, "the rate");
    }
    if (drawing->has_waits) {
        caption_dot(drawing, LEFT + 2350, PAINT_LEFT, "forwarded, below the line");
        caption_line(drawing, (struct point){LEFT + 3700, sum_y}, PAINT_LEFT_LINE, "forwarded");
    }
    svg_text(drawing->file, (struct point){LEFT, used_y}, PAINT_CAPTION, "%s",
             has_slots ? "In flight:" : "Forwarded in the last 10 s:");
    caption_line(drawing, (struct point){LEFT + (has_slots ? 650 : 1700), used_y}, PAINT_LIMIT_LINE,
                 "the limit, 10");
}

static size_t count_admitted(const struct request *requests)
{
    size_t n = 0;
    for (size_t i = 0; i < SCENE_REQUESTS; i++) {
        n += requests[i].admitted;
    }
    return n;
}

static void draw_title(const struct drawing *drawing, const struct picture *picture, int highest)
{
    enum {
        PER_LETTER = 100,
        GAP = 120
    }; /* a bold letter of this size, on average and generously */
    int letters = 0;
    while (picture->algorithm[letters] != '\0') {
        letters++;
    }
    svg_text(drawing->file, (struct point){LEFT, TITLE_Y}, PAINT_TITLE, "%s", picture->algorithm);
    svg_text(drawing->file, (struct point){LEFT + letters * PER_LETTER + GAP, TITLE_Y}, PAINT_WORDS,
             "%s", picture->words);
    svg_text(drawing->file, (struct point){RIGHT, TITLE_Y}, PAINT_FACTS,
             drawing->limit->algorithm->has_slots ? "%zu of %d admitted, at most %d in flight"
                                                  : "%zu of %d admitted, %d in the densest 10 s",
             count_admitted(drawing->requests), SCENE_REQUESTS, highest);
}

void draw(FILE *file, const struct picture *picture, const struct limit *limit,
          const struct request requests[SCENE_REQUESTS])
{
    const struct drawing drawing = layout(file, limit, requests);
    const struct steps used = count_used(&drawing);

    svg_begin(file, WIDTH, drawing.used.bottom + TIME_HEIGHT, picture->file,
              "Which requests of a burst, a steady stream and a burst across the edge of a window "
              "are admitted, as the program decides.");
    draw_paper(&drawing);
    draw_title(&drawing, picture, steps_highest(&used));
    draw_captions(&drawing);
    draw_phases(&drawing);
    draw_dots(&drawing);
    draw_sums(&drawing);
    draw_used(&drawing, &used);
    svg_end(file);
}
