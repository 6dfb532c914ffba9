/* The connections of an admin listener together: which one makes place for another, which end with
 * it, and who follows the stream. */

#include "admin/admin_connection.h"
#include "base/clock.h"

/* A client that was let in has this long to send a body with its token, or to read an answer, even
 * if another connection waits for a slot. */
#define UNDISTURBED_US (UINT64_C(2) * 1000 * 1000)

/* Of connections that were let in without a token, so many of one client are as good as others: a
 * program that asks in a loop keeps no operator of the same machine out. */
enum { WITHOUT_TOKEN_MAX = ADMIN_CONNECTIONS_MAX / 4 };

/* Of an address lately: further ones come behind those of others. A browser opens six at once. */
enum { NEWCOMERS_FEW = 8 };

/* Which connections give way to a new one, the first to go first. */
enum rank {
    RANK_STRANGER,   /* no request of it was let in yet, other than for a file of the page; or
                      * without a token, and its client has more than WITHOUT_TOKEN_MAX of these */
    RANK_IDLE,       /* waits for the rest of a request, or for the next */
    RANK_SLOW,       /* reads its answer slowly */
    RANK_SLOW_TOKEN, /* has shown a token, and reads its answer or sends a body slowly */
    RANK_NONE,       /* stays */
};

static bool has_shown_token(const struct admin_connection *connection)
{
    return connection->known_by == ACCESS_BY_TOKEN || connection->known_by == ACCESS_BY_READ_TOKEN;
}

/* Whether a request is worked on that may change something. */
static bool may_be_changing(const struct admin_connection *connection)
{
    return connection->known_by == ACCESS_BY_SOCKET &&
           (connection->state == STATE_HANDLE || connection->state == STATE_RECEIVE);
}

static enum rank rank_of(const struct admin_connection *connection, bool is_one_of_many,
                         uint64_t now_us)
{
    const bool has_token = has_shown_token(connection);
    if (connection->known_by == ACCESS_BY_NOTHING) {
        return RANK_STRANGER;
    }
    if (is_one_of_many && connection->state != STATE_STREAM && !may_be_changing(connection)) {
        return RANK_STRANGER;
    }
    switch (connection->state) {
    case STATE_HANDSHAKE:
    case STATE_IDLE:
    case STATE_READ_HEAD:
    case STATE_LINGER:
        return RANK_IDLE;
    case STATE_READ_BODY:
        if (!has_token) {
            return RANK_IDLE;
        }
        break;
    case STATE_WRITE:
        break;
    case STATE_HANDLE:
    case STATE_RECEIVE:
    case STATE_STREAM:
    case N_STATES:
        return RANK_NONE;
    }
    if (now_us - connection->state_began_us < UNDISTURBED_US) {
        return RANK_NONE;
    }
    return has_token ? RANK_SLOW_TOKEN : RANK_SLOW;
}

/* --- newcomers --- */

void admin_newcomers_add(struct admin *admin, const struct access_peer *peer)
{
    if (!peer->is_unix) {
        newcomers_add(&admin->newcomers, &peer->address, clock_monotonic_us());
    }
}

void admin_newcomers_let_in(struct admin *admin, const struct access_peer *peer)
{
    if (!peer->is_unix) {
        newcomers_let_in(&admin->newcomers, &peer->address, clock_monotonic_us());
    }
}

static uint32_t n_newcomers_of(struct admin *admin, const struct access_peer *peer)
{
    return peer->is_unix ? 0
                         : newcomers_count(&admin->newcomers, &peer->address, clock_monotonic_us());
}

bool admin_newcomers_are_many(struct admin *admin, const struct access_peer *peer)
{
    return n_newcomers_of(admin, peer) > NEWCOMERS_FEW;
}

/* --- which one gives way --- */

static bool is_same_client(const struct access_peer *one, const struct access_peer *other)
{
    const struct address one_client = address_of_client(&one->address);
    const struct address other_client = address_of_client(&other->address);
    return one->uid == other->uid && address_equals(&one_client, &other_client);
}

/* A program of this machine has all addresses of 127.0.0.0/8. */
static bool is_same_machine(const struct access_peer *one, const struct access_peer *other)
{
    return is_same_client(one, other) || (!one->is_unix && address_is_loopback(&one->address) &&
                                          !other->is_unix && address_is_loopback(&other->address));
}

/* The connections without a token that are like one of them, and the new one. */
struct company {
    size_t n_let_in;     /* of its machine or user, without the new one */
    size_t n_of_machine; /* or of its user */
    size_t n_of_client;  /* of its address */
};

/* That of @connection, which has shown no token, with a new connection of @peer. */
static struct company company_of(const struct admin_connection *connection,
                                 const struct access_peer *peer)
{
    struct list *all = &connection->admin_listener->connections;
    struct company company = {
        .n_of_machine = is_same_machine(&connection->peer, peer),
        .n_of_client = is_same_client(&connection->peer, peer),
    };
    for (struct list *node = all->next; node != all; node = node->next) {
        const struct admin_connection *other = CONTAINER_OF(node, struct admin_connection, node);
        if (!has_shown_token(other) && is_same_machine(&other->peer, &connection->peer)) {
            company.n_of_machine++;
            company.n_let_in += other->known_by != ACCESS_BY_NOTHING;
            company.n_of_client += is_same_client(&other->peer, &connection->peer);
        }
    }
    return company;
}

/* A candidate to give way. */
struct candidate {
    struct admin_connection *connection; /* NULL: none */
    enum rank rank;
    size_t n_like_it; /* with RANK_STRANGER: of its address, or machine where there are many */
};

static struct candidate candidate_of(struct admin_connection *connection,
                                     const struct access_peer *peer, uint64_t now_us)
{
    if (has_shown_token(connection)) {
        return (struct candidate){connection, rank_of(connection, false, now_us), 0};
    }
    const struct company company = company_of(connection, peer);
    const bool is_known = connection->known_by != ACCESS_BY_NOTHING;
    const enum rank rank =
        rank_of(connection, is_known && company.n_let_in > WITHOUT_TOKEN_MAX, now_us);
    const size_t n_lately = n_newcomers_of(connection->admin_listener->admin, &connection->peer);
    const size_t n = is_known                         ? company.n_of_machine
                     : n_lately > company.n_of_client ? n_lately
                                                      : company.n_of_client;
    return (struct candidate){connection, rank, rank == RANK_STRANGER ? n : 0};
}

/* Of strangers the oldest goes: one that has just come may be about to show a token. */
static bool goes_before(const struct candidate *one, const struct candidate *other)
{
    if (one->rank != other->rank) {
        return one->rank < other->rank;
    }
    if (one->n_like_it != other->n_like_it) {
        return one->n_like_it > other->n_like_it;
    }
    return one->rank == RANK_STRANGER
               ? one->connection->began_us < other->connection->began_us
               : one->connection->state_began_us < other->connection->state_began_us;
}

bool admin_connections_have_request(const struct admin_listener *admin_listener,
                                    const struct policy *policy)
{
    for (struct list *node = admin_listener->connections.next; node != &admin_listener->connections;
         node = node->next) {
        const struct admin_connection *connection =
            CONTAINER_OF(node, struct admin_connection, node);
        if (connection->has_request && connection->request.policy == policy) {
            return true;
        }
    }
    return false;
}

bool admin_connection_make_place(struct admin_listener *admin_listener,
                                 const struct access_peer *peer)
{
    const uint64_t now_us = clock_monotonic_us();
    struct candidate first = {.rank = RANK_NONE};
    for (struct list *node = admin_listener->connections.next; node != &admin_listener->connections;
         node = node->next) {
        struct admin_connection *connection = CONTAINER_OF(node, struct admin_connection, node);
        const struct candidate next = candidate_of(connection, peer, now_us);
        if (next.rank != RANK_NONE && goes_before(&next, &first)) {
            first = next;
        }
    }
    if (first.connection != NULL) {
        admin_connection_free(first.connection);
    }
    return first.connection != NULL;
}

void admin_connections_leave(struct admin_listener *admin_listener)
{
    struct list *node = admin_listener->connections.next;
    while (node != &admin_listener->connections) {
        struct admin_connection *connection = CONTAINER_OF(node, struct admin_connection, node);
        node = node->next;
        connection->keep_alive = false;
        if (!connection->has_asked) {
            /* Its request may be on its way, and it could not know. */
            admin_connection_await_head(connection);
        } else if (!connection->has_request) {
            admin_connection_free(connection);
        }
    }
}

/* --- viewers --- */

static void send_to_viewers(struct admin_listener *admin_listener, struct span line)
{
    struct list *node = admin_listener->connections.next;
    while (node != &admin_listener->connections) {
        struct admin_connection *connection = CONTAINER_OF(node, struct admin_connection, node);
        node = node->next;
        if (connection->state != STATE_STREAM) {
            continue;
        }
        if (line.len == 0) {
            admin_connection_end_stream(connection);
        } else {
            admin_connection_send_line(connection, line);
        }
    }
}

void admin_viewers_send(struct admin *admin, struct span line)
{
    struct list *node = admin->admin_listeners.next;
    for (; node != &admin->admin_listeners; node = node->next) {
        send_to_viewers(CONTAINER_OF(node, struct admin_listener, node), line);
    }
}

/* The viewer at @admin_listener that may not change anything and has been there for longer than
 * @oldest; else @oldest, which may be NULL. */
static struct admin_connection *find_oldest(struct admin_listener *admin_listener,
                                            struct admin_connection *oldest)
{
    struct list *node = admin_listener->connections.next;
    for (; node != &admin_listener->connections; node = node->next) {
        struct admin_connection *connection = CONTAINER_OF(node, struct admin_connection, node);
        if (connection->state == STATE_STREAM && !connection->request.may_change &&
            (oldest == NULL || connection->state_began_us < oldest->state_began_us)) {
            oldest = connection;
        }
    }
    return oldest;
}

bool admin_viewers_make_place(struct admin *admin)
{
    struct admin_connection *oldest = NULL;
    struct list *node = admin->admin_listeners.next;
    for (; node != &admin->admin_listeners; node = node->next) {
        oldest = find_oldest(CONTAINER_OF(node, struct admin_listener, node), oldest);
    }
    if (oldest != NULL) {
        admin_connection_end_stream(oldest);
    }
    return oldest != NULL;
}

void admin_connections_close(struct admin_listener *admin_listener)
{
    while (!list_is_empty(&admin_listener->connections)) {
        admin_connection_free(
            CONTAINER_OF(admin_listener->connections.next, struct admin_connection, node));
    }
}
