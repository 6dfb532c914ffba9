#include "http/head_meaning.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool head_read_version(struct head *head, struct span version)
{
    if (version.len != VERSION_BYTES || !span_starts_with(version, SPAN("HTTP/")) ||
        !is_digit(version.data[5]) || version.data[6] != '.' || !is_digit(version.data[7])) {
        return head_refuse(head, 400, "the version is malformed");
    }
    if (version.data[5] != '1') {
        return head_refuse(head, 505, "the version is not HTTP/1");
    }
    head->minor = version.data[7] == '0' ? 0 : 1;
    return true;
}
