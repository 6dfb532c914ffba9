#include "proxy/linger.h"

void linger_begin(struct lingering *linger, uint64_t now_us)
{
    linger->until_us = now_us + LINGER_US_MAX;
    linger->bytes_left = LINGER_BYTES_MAX;
}

bool linger_takes(struct lingering *linger, size_t n, uint64_t now_us)
{
    const bool goes_on = n < linger->bytes_left && now_us < linger->until_us;
    linger->bytes_left -= goes_on ? n : linger->bytes_left;
    return goes_on;
}
