#include "base/random_stream.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

#include "base/compiler.h"
#include "base/hash.h"

_Static_assert(RANDOM_STREAM_KEY_BYTES == randombytes_SEEDBYTES, "ChaCha20 takes such a key");

static void refill(struct random_stream *stream)
{
    uint8_t key[RANDOM_STREAM_KEY_BYTES];
    memcpy(key, stream->block, sizeof(key));
    randombytes_buf_deterministic(stream->block, sizeof(stream->block), key);
    stream->n_used = RANDOM_STREAM_KEY_BYTES;
    sodium_memzero(key, sizeof(key));
}

void random_stream_init(struct random_stream *stream)
{
    hash_random(stream->block, RANDOM_STREAM_KEY_BYTES);
    stream->n_used = RANDOM_STREAM_BYTES;
}

void random_stream_take(struct random_stream *stream, void *bytes, size_t len)
{
    assert(len <= RANDOM_STREAM_BYTES - RANDOM_STREAM_KEY_BYTES);
    if (UNLIKELY(RANDOM_STREAM_BYTES - stream->n_used < len)) {
        refill(stream);
    }
    memcpy(bytes, stream->block + stream->n_used, len);
    memset(stream->block + stream->n_used, 0, len); /* an older output cannot be read back */
    stream->n_used += len;
}
