#include "limit/ban_terms.h"

uint64_t ban_terms_length_ms(const struct ban_terms *terms, uint64_t strike)
{
    uint64_t length_ms = terms->for_ms;
    if (terms->factor <= 1) {
        return length_ms < terms->max_ms ? length_ms : terms->max_ms;
    }
    for (uint64_t i = 1; i < strike && length_ms < terms->max_ms; i++) {
        if (length_ms > terms->max_ms / terms->factor) {
            return terms->max_ms;
        }
        length_ms *= terms->factor;
    }
    return length_ms < terms->max_ms ? length_ms : terms->max_ms;
}
