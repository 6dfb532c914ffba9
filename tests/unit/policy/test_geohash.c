/* The cells of test_geohash.py, by another implementation, are many more. */

#include "policy/key_sources.h"

#include <check.h>
#include <stdlib.h>

#include "base/compiler.h"

/* By Geo::Hash of Perl. */
static const struct {
    const char *latitude;
    const char *longitude;
    const char *cell;
} CELLS[] = {
    {"52.520008", "13.404954", "u33dc0cpn"},
    {"-33.8688", "151.2093", "r3gx2f77b"},
    {"48.8584", "2.2945", "u09tunquc"},
    {"0", "0", "s00000000"},
    {"-0.0000001", "-0.0000001", "7zzzzzzzz"},
    {"90", "180", "zzzzzzzzz"},
    {"-90", "-180", "000000000"},
    {"90", "-180", "bpbpbpbpb"},
    {"-90", "180", "pbpbpbpbp"},
    {"0", "180", "xbpbpbpbp"},
    {"0", "-180", "800000000"},
    {"0", "179.999999", "xbpbpbpbp"},
    {"0", "-179.999999", "800000000"},
    {"89.999999", "0", "upbpbpbpb"},
    {"-89.999999", "0", "h00000000"},
    {"45", "90", "y00000000"},
    {"44.999999999", "89.999999999", "tzzzzzzzz"},
    {"-45", "-90", "600000000"},
    {"42.605", "-5.603", "ezs42s000"},
    {"57.64911", "10.40744", "u4pruydqq"},
    {"37.8324", "112.5584", "ww8p1r4t8"},
    {"0.1", "0.1", "s000d60yd"},
    {"-22.5", "-45", "7h0000000"},
    {"11.25", "22.5", "sd0000000"},
};

static struct span cell_of(const char *latitude, const char *longitude, size_t characters)
{
    static char cell[GEOHASH_CHARACTERS_MAX];
    return geohash_write(span_of_text(latitude), span_of_text(longitude), characters, cell)
               ? span_of(cell, characters)
               : SPAN("none");
}

START_TEST(each_point_has_its_cell_of_any_length)
{
    for (size_t n = 1; n <= GEOHASH_CHARACTERS_MAX; n++) {
        const struct span cell = cell_of(CELLS[_i].latitude, CELLS[_i].longitude, n);
        ck_assert_msg(span_equals(cell, span_of(CELLS[_i].cell, n)), "%s %s: %.*s",
                      CELLS[_i].latitude, CELLS[_i].longitude, SPAN_ARGS(cell));
        ck_assert(geohash_is_cell(cell, n));
    }
}
END_TEST

/* Borders and what is next to them: 4194303/2^22 of the way from -90 to 90 degrees, and 1/2^23 from
 * -180 to 180. */
START_TEST(borders_are_exact)
{
    static const struct {
        const char *latitude;
        const char *cell;
    } NORTH[] = {
        {"89.99995708465576171875", "zzzzzzzzz"},
        {"89.9999570846557617187500000000", "zzzzzzzzz"},
        {"89.9999570846557617187499999999", "zzzzzzzzx"},
        {"89.99995708465576171874", "zzzzzzzzx"},
        {"90.00000000000000000000000000", "zzzzzzzzz"},
        {"89.99999999999999999999999999999", "zzzzzzzzz"},
        {"90.000000000000000000000000001", "none"},
        {"90.00000000000000000001", "none"},
    };
    static const struct {
        const char *longitude;
        const char *cell;
    } WEST[] = {
        {"-179.99995708465576171875", "000000001"},
        {"-179.999957084655761718750000001", "000000000"},
        {"-179.99995708465576171874999999", "000000001"},
        {"-180.0000000000000000000000000", "000000000"},
        {"-180.000000000000000000000000001", "none"},
    };
    for (size_t i = 0; i < ARRAY_LEN(NORTH); i++) {
        const struct span cell = cell_of(NORTH[i].latitude, "180", 9);
        ck_assert_msg(span_equals(cell, span_of_text(NORTH[i].cell)), "%s: %.*s", NORTH[i].latitude,
                      SPAN_ARGS(cell));
    }
    for (size_t i = 0; i < ARRAY_LEN(WEST); i++) {
        const struct span cell = cell_of("-90", WEST[i].longitude, 9);
        ck_assert_msg(span_equals(cell, span_of_text(WEST[i].cell)), "%s: %.*s", WEST[i].longitude,
                      SPAN_ARGS(cell));
    }
}
END_TEST

START_TEST(one_number_has_several_spellings)
{
    static const char *const SPELLINGS[] = {"7",     "+7",      "07",
                                            "7.",    "7.0",     "00000000000000000000000000000007",
                                            "+07.0", "7.00000", "7.000000000000000000000000000000"};
    for (size_t i = 0; i < ARRAY_LEN(SPELLINGS); i++) {
        ck_assert_msg(span_equals(cell_of(SPELLINGS[i], SPELLINGS[i], 9), SPAN("s1hzz631z")), "%s",
                      SPELLINGS[i]);
    }
    ck_assert(!span_equals(cell_of(".5", "-.5", 9), SPAN("none")));
}
END_TEST

static const char *const BAD[] = {
    "",
    "-",
    "+",
    ".",
    "-.",
    "--1",
    "+-1",
    "1-",
    " 1",
    "1 ",
    "1,5",
    "1.5.1",
    "1e1",
    "1E1",
    "0x10",
    "nan",
    "inf",
    "one",
    "1\xa0",
    "1\xd9\xa5",
    "90.0001",
    "-90.0001",
    "91",
    "999999999999999999999999999999",
    "000000000000000000000000000000001",
    "1.0000000000000000000000000000000",
    "12\t",
};

START_TEST(what_is_no_latitude_has_no_cell)
{
    ck_assert_msg(span_equals(cell_of(BAD[_i], "0", 6), SPAN("none")), "%s", BAD[_i]);
}
END_TEST

START_TEST(what_is_no_longitude_has_no_cell)
{
    static const char *const ONLY[] = {"180.00001", "-180.00001", "181"};
    const bool is_latitude_alone = BAD[_i][0] == '9' || (BAD[_i][0] == '-' && BAD[_i][1] == '9');
    if (!is_latitude_alone) {
        ck_assert_msg(span_equals(cell_of("0", BAD[_i], 6), SPAN("none")), "%s", BAD[_i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(ONLY); i++) {
        ck_assert(span_equals(cell_of("0", ONLY[i], 6), SPAN("none")));
    }
    ck_assert(!span_equals(cell_of("0", "91", 6), SPAN("none")));
}
END_TEST

START_TEST(a_cell_has_letters_of_its_alphabet_alone)
{
    ck_assert(geohash_is_cell(SPAN("u33dc0"), 6));
    ck_assert(!geohash_is_cell(SPAN("u33dc0"), 5));
    ck_assert(!geohash_is_cell(SPAN("u33dc"), 6));
    ck_assert(!geohash_is_cell(SPAN("U33DC0"), 6));
    ck_assert(!geohash_is_cell(SPAN("a33dc0"), 6));
    ck_assert(!geohash_is_cell(span_of("u33dc\0", 6), 6));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("policy/geohash");
    TCase *tcase = tcase_create("cells");
    tcase_add_loop_test(tcase, each_point_has_its_cell_of_any_length, 0, (int)ARRAY_LEN(CELLS));
    tcase_add_test(tcase, borders_are_exact);
    tcase_add_test(tcase, one_number_has_several_spellings);
    tcase_add_loop_test(tcase, what_is_no_latitude_has_no_cell, 0, (int)ARRAY_LEN(BAD));
    tcase_add_loop_test(tcase, what_is_no_longitude_has_no_cell, 0, (int)ARRAY_LEN(BAD));
    tcase_add_test(tcase, a_cell_has_letters_of_its_alphabet_alone);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
