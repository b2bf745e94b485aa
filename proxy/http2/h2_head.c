#include "http2/h2_head.h"

#include <string.h>

#include "http/message.h"

/* More than the longest method, so that HTTP/1's reader finds it too long. */
#define FIRST_BYTES 512

void h2_head_begin(
	struct h2_head *head, struct buffer_pool *pool, uint32_t most_bytes, enum h2_head_kind kind)
{
	h2_head_end(head);
	*head = (struct h2_head){
		.pool = pool, .most_bytes = most_bytes, .kind = kind, .is_open = true};
}

void h2_head_end(struct h2_head *head)
{
	if (!head->is_open)
		return;
	buffer_release(&head->text, head->pool);
	buffer_release(&head->cookie, head->pool);
	head->is_open = false;
}

static bool has_failed(const struct h2_head *head)
{
	return head->is_bad || head->is_too_large || head->lacks_memory;
}

static bool reserve(struct h2_head *head, struct buffer *buffer, size_t bytes)
{
	size_t used = buffer->at ? buffer_used(buffer) : 0;

	size_t counted = buffer == &head->text ? used - head->text_at : used;

	if (counted + bytes > head->most_bytes + FIRST_BYTES) {
		head->is_too_large = true;
		return false;
	}
	if (buffer->at && buffer_room(buffer) >= bytes)
		return true;
	size_t wanted = 2 * (used + bytes);
	if (wanted < FIRST_BYTES)
		wanted = FIRST_BYTES;
	if ((!buffer->at && !buffer_acquire(buffer, head->pool)) ||
		(buffer_room(buffer) < bytes && !buffer_reserve(buffer, head->pool, wanted))) {
		head->lacks_memory = true;
		return false;
	}
	return true;
}

static void put(struct buffer *buffer, struct slice bytes)
{
	if (bytes.len > 0)
		memcpy(buffer->at + buffer->end, bytes.at, bytes.len);
	buffer->end += (uint32_t)bytes.len;
}

static void put_line(struct h2_head *head, struct slice name, struct slice value)
{
	if (!reserve(head, &head->text, name.len + value.len + 4))
		return;
	put(&head->text, name);
	put(&head->text, SLICE(": "));
	put(&head->text, value);
	put(&head->text, SLICE("\r\n"));
}

static struct slice part(const struct h2_head *head, const struct h2_part *part)
{
	return (struct slice){head->text.at + part->at, part->len};
}

/* A text that stays one word in a line. */
static bool is_word(struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		if ((unsigned char)text.at[i] <= ' ' || text.at[i] == 0x7f)
			return false;
	}
	return text.len > 0;
}

static struct h2_part *pseudo_of(struct h2_head *head, struct slice name)
{
	if (head->kind != H2_HEAD_REQUEST)
		return head->kind == H2_HEAD_RESPONSE && slice_equal(name, SLICE(":status"))
			       ? &head->status
			       : NULL;
	if (slice_equal(name, SLICE(":method")))
		return &head->method;
	if (slice_equal(name, SLICE(":scheme")))
		return &head->scheme;
	if (slice_equal(name, SLICE(":authority")))
		return &head->authority;
	return slice_equal(name, SLICE(":path")) ? &head->path : NULL;
}

static void add_pseudo(struct h2_head *head, struct slice name, struct slice value)
{
	struct h2_part *part = pseudo_of(head, name);

	if (!part || part->is_here || head->has_line || !is_word(value)) {
		head->is_bad = true;
		return;
	}
	if (!reserve(head, &head->text, value.len))
		return;
	*part = (struct h2_part){head->text.end, (uint32_t)value.len, true};
	put(&head->text, value);
}

/* CONNECT alone has no path (RFC 9113 section 8.5); HTTP/1 names the authority in its place. */
static struct slice target_of(const struct h2_head *head)
{
	bool is_connect = slice_equal(part(head, &head->method), SLICE("CONNECT"));

	return part(head, is_connect && !head->path.is_here ? &head->authority : &head->path);
}

/* Only the schemes of HTTP: for others the path need not begin with a slash. */
static bool is_plausible(const struct h2_head *head)
{
	bool is_connect =
		head->method.is_here && slice_equal(part(head, &head->method), SLICE("CONNECT"));

	if (!head->method.is_here || (is_connect && head->authority.is_here && !head->path.is_here))
		return head->method.is_here;
	struct slice scheme = part(head, &head->scheme), path = part(head, &head->path);

	return head->scheme.is_here && head->path.is_here &&
	       (slice_equal_nocase(scheme, SLICE("http")) ||
		       slice_equal_nocase(scheme, SLICE("https"))) &&
	       (path.at[0] == '/' || slice_equal(path, SLICE("*")));
}

/* Whether its status is one is for HTTP/1's reader to find. */
static void begin_response(struct h2_head *head)
{
	head->text_at = head->text.end;
	if (!head->status.is_here || head->status.len != 3)
		head->is_bad = true;
	else if (reserve(head, &head->text, 32)) {
		put(&head->text, SLICE("HTTP/1.1 "));
		put(&head->text, part(head, &head->status));
		put(&head->text, SLICE(" \r\n"));
	}
}

/* The pseudo fields are complete: the first line and Host are composed of them. */
static void begin_text(struct h2_head *head)
{
	if (head->has_line || has_failed(head))
		return;
	head->has_line = true;
	if (head->kind == H2_HEAD_RESPONSE) {
		begin_response(head);
		return;
	}
	if (!is_plausible(head)) {
		head->is_bad = true;
		return;
	}
	head->text_at = head->text.end;
	if (!reserve(head, &head->text,
		    head->method.len + head->path.len + 2u * head->authority.len + 32))
		return;
	put(&head->text, part(head, &head->method));
	put(&head->text, SLICE(" "));
	put(&head->text, target_of(head));
	put(&head->text, SLICE(" HTTP/1.1\r\n"));
	if (head->authority.is_here)
		put_line(head, SLICE("host"), part(head, &head->authority));
}

static void add_cookie(struct h2_head *head, struct slice value)
{
	bool is_first = !head->cookie.at;

	if (!reserve(head, &head->cookie, value.len + 2))
		return;
	if (!is_first)
		put(&head->cookie, SLICE("; "));
	put(&head->cookie, value);
}

/* A field of this connection alone, which HTTP/2 does not have (RFC 9113 section 8.2.2). */
static bool is_forbidden(enum http_field_id id, struct slice value)
{
	switch ((unsigned)id) {
	case HTTP_FIELD_CONNECTION:
	case HTTP_FIELD_KEEP_ALIVE:
	case HTTP_FIELD_PROXY_CONNECTION:
	case HTTP_FIELD_TRANSFER_ENCODING:
	case HTTP_FIELD_UPGRADE:
		return true;
	case HTTP_FIELD_TE:
		return !slice_equal_nocase(value, SLICE("trailers"));
	default:
		return false;
	}
}

void h2_head_add(struct h2_head *head, struct slice name, struct slice value)
{
	if (has_failed(head))
		return;
	if (name.len > 0 && name.at[0] == ':') {
		add_pseudo(head, name, value);
		return;
	}
	enum http_field_id id = http_field_id(name);

	if (is_forbidden(id, value)) {
		head->is_bad = true;
		return;
	}
	if (head->kind == H2_HEAD_TRAILERS) {
		put_line(head, name, value);
		return;
	}
	begin_text(head);
	if (has_failed(head))
		return;
	if (id == HTTP_FIELD_HOST && head->authority.is_here) {
		/* RFC 9113 section 8.3.1: they must not differ. */
		head->is_bad = !slice_equal_nocase(value, part(head, &head->authority));
		return;
	}
	head->has_length |= id == HTTP_FIELD_CONTENT_LENGTH;
	if (id == HTTP_FIELD_COOKIE && head->kind == H2_HEAD_REQUEST)
		add_cookie(head, value);
	else
		put_line(head, name, value);
}

struct slice h2_head_finish(struct h2_head *head, bool has_body)
{
	if (head->kind != H2_HEAD_TRAILERS) {
		begin_text(head);
		if (head->cookie.at && !has_failed(head))
			put_line(head, SLICE("cookie"),
				(struct slice){
					buffer_head(&head->cookie), buffer_used(&head->cookie)});
		if (has_body && !head->has_length && !has_failed(head))
			put_line(head, SLICE("transfer-encoding"), SLICE("chunked"));
		if (!has_failed(head) && reserve(head, &head->text, 2))
			put(&head->text, SLICE("\r\n"));
	}
	if (has_failed(head))
		return SLICE_NONE;
	if (!head->text.at)
		return SLICE("");
	return (struct slice){head->text.at + head->text_at, head->text.end - head->text_at};
}
