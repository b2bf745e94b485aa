/* What we tell the upstream of the hops before it. The walk is in forwarded_walk.c. */
#include "http/forwarded.h"

/* Appends all field lines of one name, joined; returns whether there was anything. */
static bool append_fields(struct http_out *out, const struct http_head *head, enum http_field_id id)
{
	bool any = false;

	for (unsigned i = 0; i < head->field_count; i++) {
		struct slice value = http_field_value(head, &head->fields[i]);
		if (head->fields[i].id != id || value.len == 0)
			continue;
		if (any)
			http_out_slice(out, SLICE(", "));
		http_out_slice(out, value);
		any = true;
	}
	return any;
}

void forwarded_append_for(
	struct http_out *out, const struct http_head *head, const struct forwarded_peer *peer)
{
	bool any = peer->trusted && append_fields(out, head, HTTP_FIELD_X_FORWARDED_FOR);

	if (peer->is_unix)
		return;
	if (any)
		http_out_slice(out, SLICE(", "));
	http_out_slice(out, forwarded_peer_text(peer));
}

void forwarded_append_proto(struct http_out *out, const struct http_head *head,
	const struct forwarded_peer *peer, const struct conf_cidrs *trusted, bool is_https)
{
	if (peer->trusted && append_fields(out, head, HTTP_FIELD_X_FORWARDED_PROTO))
		return;
	struct slice told = forwarded_proto(head, peer, trusted);
	if (!told.at)
		told = is_https ? SLICE("https") : SLICE("http");
	http_out_slice(out, told);
}

void forwarded_append_host(struct http_out *out, const struct http_head *head,
	const struct forwarded_peer *peer, struct slice host)
{
	if (peer->trusted && append_fields(out, head, HTTP_FIELD_X_FORWARDED_HOST))
		return;
	http_out_slice(out, host);
}

/* RFC 9110 section 5.6.2. */
static bool is_token(struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.at[i];
		bool alnum = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
		if (!alnum && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
			return false;
	}
	return text.len > 0;
}

static void append_token_or_quoted(struct http_out *out, struct slice text)
{
	if (is_token(text))
		http_out_slice(out, text);
	else
		http_out_sf_string(out, text);
}

void forwarded_append_forwarded(struct http_out *out, const struct http_head *head,
	const struct forwarded_peer *peer, struct slice host, bool is_https)
{
	if (peer->trusted && append_fields(out, head, HTTP_FIELD_FORWARDED))
		http_out_slice(out, SLICE(", "));
	http_out_slice(out, SLICE("for="));
	http_out_slice(out, (struct slice){peer->node, peer->node_len});
	if (host.len > 0) {
		http_out_slice(out, SLICE(";host="));
		append_token_or_quoted(out, host);
	}
	http_out_slice(out, is_https ? SLICE(";proto=https") : SLICE(";proto=http"));
}

void forwarded_append_via(
	struct http_out *out, const struct http_head *head, struct slice pseudonym)
{
	if (append_fields(out, head, HTTP_FIELD_VIA))
		http_out_slice(out, SLICE(", "));
	http_out_char(out, (char)('0' + head->major % 10));
	if (head->major == 1) {
		http_out_char(out, '.');
		http_out_char(out, (char)('0' + head->minor % 10));
	}
	http_out_char(out, ' ');
	http_out_slice(out, pseudonym);
}
