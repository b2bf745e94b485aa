/*
 * A message's head as the proxy sees it: its bytes, and the places of its parts in them.
 *
 *   base -> GET /a?b HTTP/1.1\r\nHost: x\r\nX-Api-Key: k\r\n\r\n
 *           `-- target        `-- fields[0]  `-- fields[1]       offsets, so the bytes may move as
 * a whole
 *
 * The parser (http/parser.h) fills it; nothing is copied and nothing is lower-cased.
 */
#ifndef HTTP_MESSAGE_H
#define HTTP_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "http/method.h"

/* Field names the proxy itself acts on; all others are HTTP_FIELD_OTHER and pass by name. */
enum http_field_id {
	HTTP_FIELD_OTHER,
	HTTP_FIELD_UNDERSCORED, /* no known name, and one with an underscore */
	HTTP_FIELD_CACHE_CONTROL,
	HTTP_FIELD_CONNECTION,
	HTTP_FIELD_CONTENT_LENGTH,
	HTTP_FIELD_COOKIE,
	HTTP_FIELD_DATE,
	HTTP_FIELD_EXPECT,
	HTTP_FIELD_FORWARDED,
	HTTP_FIELD_HOST,
	HTTP_FIELD_KEEP_ALIVE,
	HTTP_FIELD_MAX_FORWARDS,
	HTTP_FIELD_PROXY_CONNECTION,
	HTTP_FIELD_RATELIMIT,
	HTTP_FIELD_RATELIMIT_POLICY,
	HTTP_FIELD_REFERER,
	HTTP_FIELD_SLUICE_FENCE,
	HTTP_FIELD_SLUICE_HOP,
	HTTP_FIELD_TE,
	HTTP_FIELD_TRACEPARENT,
	HTTP_FIELD_TRACESTATE,
	HTTP_FIELD_TRAILER,
	HTTP_FIELD_TRANSFER_ENCODING,
	HTTP_FIELD_UPGRADE,
	HTTP_FIELD_USER_AGENT,
	HTTP_FIELD_VIA,
	HTTP_FIELD_X_FORWARDED_FOR,
	HTTP_FIELD_X_FORWARDED_HOST,
	HTTP_FIELD_X_FORWARDED_PORT,
	HTTP_FIELD_X_FORWARDED_PROTO,
	HTTP_FIELD_X_REAL_IP,
	HTTP_FIELD_X_REQUEST_ID,
	HTTP_FIELDS,
};

#define HTTP_FIELD_NAME_LONGEST 17

/* The only known name of this length and first letter, by the letter's low five bits; but that
 * X-Forwarded-Port is where X-Forwarded-Host is. */
extern const uint8_t http_field_candidates[HTTP_FIELD_NAME_LONGEST + 1][32];

/* In lower case. */
extern const struct slice http_field_names[HTTP_FIELDS];

/* Eight bytes in lower case: letters, and what else a known name has, keep or take the bit. */
static inline uint64_t http_lower8(const char *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word | 0x2020202020202020u;
}

/* The same of four. */
static inline uint32_t http_lower4(const char *at)
{
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	return word | 0x20202020u;
}

/* http_field_is for names of any length. */
bool http_field_is_any(const char *name, enum http_field_id id);

/*
 * Is this the known name `id`, whose length it has? Compared without case: of the bytes that a
 * field name may have only the capital letter becomes a lower-case one by 0x20, and '-' has the bit
 * already (the byte that would become '-' is CR).
 */
static inline bool http_field_is(struct slice name, enum http_field_id id)
{
	const char *known = http_field_names[id].at;
	uint64_t first, last;

	if (name.len == 4) /* Host, Date: in most heads */
		return http_lower4(name.at) == http_lower4(known);
	if (name.len < 8 || name.len > 16)
		return http_field_is_any(name.at, id);
	memcpy(&first, known, sizeof(first));
	memcpy(&last, known + name.len - 8, sizeof(last));
	return ((http_lower8(name.at) ^ first) | (http_lower8(name.at + name.len - 8) ^ last)) == 0;
}

/* Which known field this name is. */
static inline enum http_field_id http_field_id(struct slice name)
{
	if (name.len == 0 || name.len > HTTP_FIELD_NAME_LONGEST)
		return HTTP_FIELD_OTHER;
	enum http_field_id id = http_field_candidates[name.len][name.at[0] & 31];
	if (id == HTTP_FIELD_OTHER || http_field_is(name, id))
		return id;
	return id == HTTP_FIELD_X_FORWARDED_HOST && http_field_is(name, HTTP_FIELD_X_FORWARDED_PORT)
		       ? HTTP_FIELD_X_FORWARDED_PORT
		       : HTTP_FIELD_OTHER;
}

/* The same for a field of a head, of which a name with an underscore is kept apart: servers that
 * make variables of names take it for the name with dashes. */
static inline enum http_field_id http_field_id_of(struct slice name)
{
	enum http_field_id id = http_field_id(name);

	return id == HTTP_FIELD_OTHER && memchr(name.at, '_', name.len) ? HTTP_FIELD_UNDERSCORED
									: id;
}

struct http_field {
	uint32_t name_at, value_at; /* offsets from base */
	uint32_t value_len;         /* without surrounding OWS */
	uint16_t name_len;
	uint8_t id; /* enum http_field_id */
	bool hop;   /* hop-by-hop or named by Connection: not passed on (RFC 9110 section 7.6.1) */
};

/* Bits of http_head.ids. */
#define HTTP_FIELD_BIT(name) (UINT32_C(1) << HTTP_FIELD_##name)

/* Fields of one hop by their names, whatever a Connection field names besides. */
#define HTTP_HOP_FIELDS                                                                            \
	(HTTP_FIELD_BIT(CONTENT_LENGTH) | HTTP_FIELD_BIT(TRANSFER_ENCODING) |                      \
		HTTP_FIELD_BIT(CONNECTION) | HTTP_FIELD_BIT(UPGRADE) |                             \
		HTTP_FIELD_BIT(KEEP_ALIVE) | HTTP_FIELD_BIT(PROXY_CONNECTION) |                    \
		HTTP_FIELD_BIT(TE))

#define HTTP_HEAD_FIELDS_INLINE 32

struct http_head {
	const char *base;
	uint32_t len;                   /* through the empty line */
	uint32_t target_at, target_len; /* requests */
	enum http_method method;        /* requests */
	uint16_t status;                /* responses */
	uint8_t major, minor;
	uint16_t field_count, field_capacity;
	uint32_t ids;                /* which fields occur: bit 1 << enum http_field_id */
	uint32_t repeated;           /* which of them more than once */
	uint16_t first[HTTP_FIELDS]; /* where, for those that occur: the first of each */
	struct http_field *fields;   /* inline_fields, or from the heap when there are more */
	struct http_field inline_fields[HTTP_HEAD_FIELDS_INLINE];
};

static inline struct slice http_head_target(const struct http_head *head)
{
	return (struct slice){head->base + head->target_at, head->target_len};
}

/* Where the line of the first field begins. */
static inline size_t http_head_fields_at(const struct http_head *head)
{
	return head->field_count > 0 ? head->fields[0].name_at : head->len - 2u;
}

static inline struct slice http_field_name(
	const struct http_head *head, const struct http_field *field)
{
	return (struct slice){head->base + field->name_at, field->name_len};
}

static inline struct slice http_field_value(
	const struct http_head *head, const struct http_field *field)
{
	return (struct slice){head->base + field->value_at, field->value_len};
}

_Static_assert(HTTP_FIELDS <= 32, "ids of fields are bits of http_head.ids");

/* For those who fill heads: the field at `index` is in its place. */
static inline void http_head_note(struct http_head *head, unsigned index)
{
	uint8_t id = head->fields[index].id;
	uint32_t bit = UINT32_C(1) << id;

	if (head->ids & bit) {
		head->repeated |= bit;
	} else {
		head->ids |= bit;
		head->first[id] = (uint16_t)index;
	}
}

/* Whether a field with this id occurs. */
static inline bool http_head_has(const struct http_head *head, enum http_field_id id)
{
	return head->ids >> id & 1;
}

/* The value of the first field with this id, or SLICE_NONE. For names without an id:
 * http_head_find_name. */
static inline struct slice http_head_find(const struct http_head *head, enum http_field_id id)
{
	if (!http_head_has(head, id))
		return SLICE_NONE;
	return http_field_value(head, &head->fields[head->first[id]]);
}

struct slice http_head_find_name(const struct http_head *head, struct slice name);

/* The same; `*ambiguous` is set when the server would find another: there are more of that name, or
 * a Connection field names it, so that it is not passed on. */
struct slice http_head_find_only(const struct http_head *head, struct slice name, bool *ambiguous);

/* The same for a name whose id is known to be `id`: by id unless that is HTTP_FIELD_OTHER. */
static inline struct slice http_head_find_known(
	const struct http_head *head, enum http_field_id id, struct slice name)
{
	return id == HTTP_FIELD_OTHER ? http_head_find_name(head, name) : http_head_find(head, id);
}

/* How many fields have this id. */
unsigned http_head_count(const struct http_head *head, enum http_field_id id);

#endif
