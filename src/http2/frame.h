/* A frame (RFC 9113 section 4): the one that is being read, and the head of one that is written. */

#ifndef SLUICE_HTTP2_FRAME_H
#define SLUICE_HTTP2_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FRAME_HEAD_BYTES = 9,
    FRAME_BYTES_MAX = 16 * 1024, /* of a payload, either way: the least that is allowed */
    FRAME_CAPTURE_BYTES = 8,     /* of a payload: a PING */
    SETTING_BYTES = 6,
};

struct frame {
    uint8_t head[FRAME_HEAD_BYTES];
    uint8_t n_head;
    bool is_judged;      /* the head is complete, and the payload not begun */
    bool is_ignored;     /* of a stream that is closed */
    bool is_content_due; /* the content, which may be empty, is not read to its end */
    uint8_t payload[FRAME_CAPTURE_BYTES]; /* its first bytes; of SETTINGS those of the last entry */
    uint32_t length;
    uint32_t left; /* of the payload */
    uint8_t type;
    uint8_t flags;
    int32_t stream_id;
    uint8_t n_prefix;      /* bytes of the payload before the content: padding's length, priority */
    uint32_t n_behind;     /* bytes of padding */
    int64_t stream_window; /* of SETTINGS: of the peer's streams; -1: it does not say */
};

/* Of DATA and blocks: without what stands before and behind. */
static inline uint32_t frame_content_bytes(const struct frame *frame)
{
    return frame->length - frame->n_prefix - frame->n_behind;
}

static inline uint32_t read_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static inline void write_u32(char *to, uint32_t value)
{
    to[0] = (char)(value >> 24);
    to[1] = (char)(value >> 16);
    to[2] = (char)(value >> 8);
    to[3] = (char)value;
}

/* The nine bytes before a payload (RFC 9113 section 4.1). */
static inline void write_frame_head(char *to, size_t length, unsigned type, unsigned flags,
                                    int32_t id)
{
    write_u32(to, (uint32_t)length << 8 | type);
    to[4] = (char)flags;
    write_u32(to + 5, (uint32_t)id);
}

#endif /* SLUICE_HTTP2_FRAME_H */
