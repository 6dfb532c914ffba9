/* Unpredictable bytes at the price of a copy: they are made in blocks by ChaCha20, under a key that
 * the system's generator gives and that each block replaces. Bytes that were given out do not tell
 * which came before or come after. One thread. */

#ifndef SLUICE_BASE_RANDOM_STREAM_H
#define SLUICE_BASE_RANDOM_STREAM_H

#include <stddef.h>
#include <stdint.h>

enum {
    RANDOM_STREAM_KEY_BYTES = 32,
    RANDOM_STREAM_BYTES = 1024, /* of a block, the next key among them */
};

struct random_stream {
    size_t n_used;                      /* bytes of the block that are not to be given out */
    uint8_t block[RANDOM_STREAM_BYTES]; /* begins with the key of the next block */
};

/* hash_setup() must have been called. */
void random_stream_init(struct random_stream *stream);

/* Fill @bytes with @len unpredictable bytes, at most RANDOM_STREAM_BYTES -
 * RANDOM_STREAM_KEY_BYTES. */
void random_stream_take(struct random_stream *stream, void *bytes, size_t len);

#endif /* SLUICE_BASE_RANDOM_STREAM_H */
