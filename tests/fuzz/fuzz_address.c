/* Whatever a client writes as its address: what is read is canonical, and its text
 * is read back as the same. */

#include <stdint.h>

#include "base/address.h"
#include "fuzz/must_hold.h"

static struct span written(const struct address *address, char *buffer)
{
    struct text text = text_of(buffer, ADDRESS_TEXT_MAX);

    address_write(address, &text);
    MUST_HOLD(!text.truncated);
    return text_span(&text);
}

static void check_address(struct span input)
{
    struct address address;
    struct address again;
    char buffer[ADDRESS_TEXT_MAX];

    if (!address_parse(input, &address)) {
        return;
    }
    MUST_HOLD(address_parse(written(&address, buffer), &again));
    MUST_HOLD(address_equals(&address, &again));
}

static void check_prefix(struct span input)
{
    struct address_prefix prefix;

    if (!address_prefix_parse(input, &prefix)) {
        return;
    }
    struct address masked = address_mask(prefix.base, prefix.bits);
    MUST_HOLD(address_equals(&masked, &prefix.base));
    MUST_HOLD(address_prefix_covers(&prefix, &prefix.base));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span input = span_of((const char *)data, size);

    check_address(input);
    check_prefix(input);
    return 0;
}
