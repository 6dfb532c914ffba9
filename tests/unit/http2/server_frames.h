/* A client's session and its server, written as frames; and what the session made of them, as
 * text: a line for each event and each frame out. */

#ifndef SLUICE_TESTS_HTTP2_SERVER_FRAMES_H
#define SLUICE_TESTS_HTTP2_SERVER_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/head.h"
#include "http2/client_session.h"

enum { REQUESTS_MAX = 8, WINDOW = 65535, SERVER_TEXT_MAX = 4096, FRAME_HEAD = 9 };

/* A request, with the memory of its answer's heads. */
struct request {
    struct http2_stream stream;
    struct head head;
    struct field fields[8];
    char bytes[512];
};

extern struct http2_session *session;
extern struct request requests[REQUESTS_MAX];
extern struct http2_room room;
extern char text[SERVER_TEXT_MAX];
extern uint64_t now_us;

/* The fixture of each test. */
void set_up(void);
void tear_down(void);

/* Write all that is due. */
void pack_all(void);

/* Bytes come; a frame comes. */
void take_events(struct span bytes);
void frame(unsigned type, unsigned flags, unsigned id, const void *payload, size_t len);
#define FRAME(type, flags, id, payload) frame(type, flags, id, payload, sizeof(payload) - 1)

/* HEADERS come; @fields are "name=value name=value", each a literal that is not indexed. */
void headers(unsigned flags, unsigned id, const char *fields);

/* The @i-th request goes out. */
void open_request(unsigned i, bool is_head, bool is_last);

#endif /* SLUICE_TESTS_HTTP2_SERVER_FRAMES_H */
