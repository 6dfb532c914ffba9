#include "policy/warning.h"

static const struct {
    const char *name;
    const char *text;
} WARNINGS[] = {
#define WARNING_ROW(id, name, text) {name, text},
    WARNING_LIST(WARNING_ROW)
#undef WARNING_ROW
};

const char *warning_name(enum warning warning)
{
    return WARNINGS[warning].name;
}

const char *warning_text(enum warning warning)
{
    return WARNINGS[warning].text;
}
