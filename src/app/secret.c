/* sluice secret: a random secret, in the format of the files that policies name. */

#include <stdio.h>

#include "app/command.h"
#include "base/hash.h"
#include "base/text.h"

static int secret_command(int argc, char **argv)
{
    uint8_t secret[32];
    char digits[2 * sizeof(secret)];
    struct text text = text_of(digits, sizeof(digits));
    int status;
    if (command_read(&SECRET_COMMAND, NULL, 0, argc, argv, &status) == 0) {
        return status;
    }
    hash_random(secret, sizeof(secret));
    text_add_hex(&text, secret, sizeof(secret));
    const bool is_written =
        printf("%.*s\n", SPAN_ARGS(text_span(&text))) > 0 && fflush(stdout) == 0;
    secret_wipe(secret, sizeof(secret));
    secret_wipe(digits, sizeof(digits));
    return is_written ? EXIT_DONE : EXIT_FAILED;
}

const struct command SECRET_COMMAND = {
    .name = "secret",
    .arguments = "",
    .summary = "print a random secret of 32 bytes in hexadecimal",
    .notes = "Keep it where only the proxy can read it: (umask 077; sluice secret > FILE)\n",
    .run = secret_command,
};
