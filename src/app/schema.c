/* sluice schema: the JSON Schema of policies, included files and tests, for editors. */

#include <jansson.h>
#include <stdio.h>

#include "app/command.h"
#include "base/compiler.h"
#include "policy/loader.h"

static int schema_command(int argc, char **argv)
{
    bool is_tests = false;
    bool is_included = false;
    int status;
    const struct command_option options[] = {
        {.name = "included", .help = "of files that policies include", .flag = &is_included},
        {.name = "tests", .help = "of tests of policies", .flag = &is_tests},
    };
    if (command_read(&SCHEMA_COMMAND, options, ARRAY_LEN(options), argc, argv, &status) == 0) {
        return status;
    }
    json_t *schema = description_of_language(is_tests      ? DESCRIPTION_TESTS
                                             : is_included ? DESCRIPTION_INCLUDED
                                                           : DESCRIPTION_POLICY);
    const bool is_written = schema != NULL && json_dumpf(schema, stdout, JSON_INDENT(2)) == 0;
    json_decref(schema);
    putchar('\n');
    return is_written ? EXIT_DONE : EXIT_FAILED;
}

const struct command SCHEMA_COMMAND = {
    .name = "schema",
    .arguments = "",
    .summary = "print the JSON Schema of policies, of included files or of tests, for editors",
    .run = schema_command,
};
