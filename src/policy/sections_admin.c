#include "base/limits.h"
#include "http/target.h"
#include "policy/section_tables.h"
#include "policy/sections.h"
#include "policy/spec_admin.h"
#include "policy/value_types.h"

static bool parse_token(const struct value_type *type, const struct node *node, struct arena *arena,
                        void *out, struct text *problem)
{
    (void)type;
    (void)arena;
    for (size_t i = 0; i < node->text.len; i++) {
        if (node->text.data[i] <= ' ' || node->text.data[i] > '~') {
            text_add_literal(problem, "may have visible characters of ASCII alone");
            return false;
        }
    }
    if (node->text.len < ADMIN_TOKEN_BYTES_MIN || node->text.len > ADMIN_TOKEN_BYTES_MAX) {
        text_add_format(problem,
                        "must be %d to %d bytes, and not to be guessed: openssl rand -hex 32",
                        ADMIN_TOKEN_BYTES_MIN, ADMIN_TOKEN_BYTES_MAX);
        return false;
    }
    *(struct spec_text *)out = (struct spec_text){.node = node, .text = node->text};
    return true;
}

static bool parse_token_file(const struct value_type *type, const struct node *node,
                             struct arena *arena, void *out, struct text *problem)
{
    (void)type;
    (void)arena;
    if (node->text.len == 0 || span_find(node->text, '\0') < node->text.len) {
        text_add_literal(problem, "must be the path of a file");
        return false;
    }
    *(struct spec_text *)out = (struct spec_text){.node = node, .text = node->text};
    return true;
}

static bool parse_host(const struct value_type *type, const struct node *node, struct arena *arena,
                       void *out, struct text *problem)
{
    char buffer[HOST_BYTES_MAX];
    (void)type;
    (void)arena;
    if (!target_is_host(node->text) || target_normalise_host(node->text, buffer).len == 0 ||
        span_find(node->text, ':') < node->text.len) {
        text_add_literal(problem, "must be the name of a host, without a port");
        return false;
    }
    *(struct spec_text *)out = (struct spec_text){.node = node, .text = node->text};
    return true;
}

static const struct value_type TOKEN = {
    .kind = VALUE_SCALAR,
    .noun = "16 to 512 visible characters of ASCII",
    .bytes = sizeof(struct spec_text),
    .parse = parse_token,
    .is_secret = true,
    .pattern = "^[!-~]{16,512}$",
};
static const struct value_type TOKEN_FILE =
    VALUE_SCALAR_TYPE("the path of a file", struct spec_text, parse_token_file);
static const struct value_type HOST =
    VALUE_SCALAR_TYPE("the name of a host, without a port", struct spec_text, parse_host);

static const struct value_type KEY_COUNT = VALUE_NUMBER_TYPE(0, METRICS_TOP_MAX);

static const struct section_field ADMIN_LISTEN_FIELDS[] = {
    {"address", SHAPE_ONE, &VALUE_LISTEN, offsetof(struct spec_admin_listen, address), NULL,
     KEY_REQUIRED, "address:port, or unix:/path"},
    {"mode", SHAPE_ONE, &VALUE_MODE, offsetof(struct spec_admin_listen, mode), "0660", KEY_OPTIONAL,
     "permissions of a unix socket: who may connect may change everything"},
};
static const struct section ADMIN_LISTEN = {.fields = ADMIN_LISTEN_FIELDS,
                                            .n_fields = ARRAY_LEN(ADMIN_LISTEN_FIELDS),
                                            .shorthand = "address"};
static const struct value_type ADMIN_LISTEN_TYPE =
    SECTION_TYPE(ADMIN_LISTEN, struct spec_admin_listen);

static const struct section_field ADMIN_FIELDS[] = {
    {"listen", SHAPE_LIST, &ADMIN_LISTEN_TYPE, offsetof(struct spec_admin, listen), NULL,
     KEY_REQUIRED, "address:port, unix:/path, a section, or a list of such"},
    {"token", SHAPE_ONE, &TOKEN, offsetof(struct spec_admin, token.text), NULL, KEY_OPTIONAL,
     "who sends it as \"Authorization: Bearer\" may read and change"},
    {"token_file", SHAPE_ONE, &TOKEN_FILE, offsetof(struct spec_admin, token.file), NULL,
     KEY_OPTIONAL, "a file with that token in its first line"},
    {"read_token", SHAPE_ONE, &TOKEN, offsetof(struct spec_admin, read_token.text), NULL,
     KEY_OPTIONAL, "who sends it may read, and change nothing"},
    {"read_token_file", SHAPE_ONE, &TOKEN_FILE, offsetof(struct spec_admin, read_token.file), NULL,
     KEY_OPTIONAL, "a file with that token in its first line"},
    {"hosts", SHAPE_LIST, &HOST, offsetof(struct spec_admin, hosts), NULL, KEY_OPTIONAL,
     "names that requests may call this server by, besides addresses and localhost"},
    {"metrics_top", SHAPE_ONE, &KEY_COUNT, offsetof(struct spec_admin, metrics_top), "0",
     KEY_OPTIONAL, "most denied keys of each limit that /metrics shows; 0: none"},
};
const struct section SECTIONS_ADMIN = {
    .fields = ADMIN_FIELDS, .n_fields = ARRAY_LEN(ADMIN_FIELDS), .shorthand = "listen"};
