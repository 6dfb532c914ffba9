#include "policy/load/spec.h"
#include "policy/load/value_types.h"

static const struct value_type ON_INVALID = WORD_TYPE(
    "deny or missing", [JWT_INVALID_IS_DENIED] = "deny", [JWT_INVALID_IS_MISSING] = "missing");
static const struct value_type ALGORITHM = WORD_TYPE(
    "RS256, RS384, RS512, PS256, ES256, ES384, EdDSA or HS256", [JWT_RS256] = "RS256",
    [JWT_RS384] = "RS384", [JWT_RS512] = "RS512", [JWT_PS256] = "PS256", [JWT_ES256] = "ES256",
    [JWT_ES384] = "ES384", [JWT_EDDSA] = "EdDSA", [JWT_HS256] = "HS256");
static const struct value_type LEEWAY = VALUE_DURATION_TYPE(0, MS(HOUR_MS));

static const struct section_field JWT_FIELDS[] = {
    {"keys", SHAPE_ONE, &VALUE_FILE, offsetof(struct spec_jwt, keys), NULL, KEY_CONDITIONAL,
     "public keys: https:// and where a JWK set is, or a file with such a set or with PEM; this or "
     "secret"},
    {"secret", SHAPE_ONE, &VALUE_SECRET, offsetof(struct spec_jwt, secret), NULL, KEY_CONDITIONAL,
     "of HS256, at least 32 bytes; this or keys"},
    {"ca", SHAPE_ONE, &VALUE_FILE, offsetof(struct spec_jwt, ca), "system", KEY_CONDITIONAL,
     "system, or a file in PEM: authorities of the certificate of keys at https://"},
    {"algorithms", SHAPE_LIST, &ALGORITHM, offsetof(struct spec_jwt, algorithms), NULL,
     KEY_CONDITIONAL, "of signatures; needed with keys; with secret it is HS256"},
    {"issuer", SHAPE_LIST, &VALUE_TEXT, offsetof(struct spec_jwt, issuers), NULL, KEY_OPTIONAL,
     "what iss of a token must be, one of these; left out: anything"},
    {"audience", SHAPE_LIST, &VALUE_TEXT, offsetof(struct spec_jwt, audiences), NULL, KEY_OPTIONAL,
     "what aud of a token must be or contain, one of these; left out: anything"},
    {"types", SHAPE_LIST, &VALUE_TEXT, offsetof(struct spec_jwt, types), NULL, KEY_OPTIONAL,
     "what typ of a token must be, one of these, such as at+jwt; left out: anything"},
    {"from", SHAPE_LIST, &VALUE_KEY_PART, offsetof(struct spec_jwt, from), NULL, KEY_OPTIONAL,
     "header.NAME, cookie.NAME or query.NAME: where tokens are; left out: header.authorization"},
    {"leeway", SHAPE_ONE, &LEEWAY, offsetof(struct spec_jwt, leeway_us), "60s", KEY_OPTIONAL,
     "by which the clocks of issuers may differ, for exp and nbf"},
    {"on_invalid", SHAPE_ONE, &ON_INVALID, offsetof(struct spec_jwt, on_invalid), "deny",
     KEY_OPTIONAL, "deny or missing: a token that is not valid gets 401, or counts as none"},
};
const struct value_type SECTIONS_JWT = SECTION_TYPE(JWT_FIELDS, struct spec_jwt);

static const struct section_field ROUTE_JWT_FIELDS[] = {
    {"provider", SHAPE_ONE, &VALUE_NAME, offsetof(struct spec_route_jwt, provider), NULL,
     KEY_OPTIONAL, "whose tokens count, a name of jwt; left out: the only one's"},
    {"required", SHAPE_ONE, &VALUE_BOOL, offsetof(struct spec_route_jwt, required), "false",
     KEY_OPTIONAL, "true: a request without a token gets 401"},
};
const struct value_type SECTIONS_ROUTE_JWT =
    SHORT_SECTION_TYPE(ROUTE_JWT_FIELDS, struct spec_route_jwt, "provider");
