#include "base/base64url.h"

#include <sodium.h>

bool base64url_decode(struct span text, uint8_t *out, size_t capacity, size_t *len)
{
    *len = 0;
    return text.len == 0 || sodium_base642bin(out, capacity, text.data, text.len, NULL, len, NULL,
                                              sodium_base64_VARIANT_URLSAFE_NO_PADDING) == 0;
}
