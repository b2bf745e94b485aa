#include "http/trailers.h"

#include "conf/conf.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* The fields whose values are known only at the end of a body, and no others. */
static const char *const request_names[] = {"content-digest", "repr-digest", "digest",
	"content-md5", "signature", "signature-input", "server-timing"};

static const char *const response_refused[] = {"authorization", "content-encoding",
	"content-length", "content-range", "content-type", "cookie", "host", "set-cookie",
	"trailer", "transfer-encoding", "www-authenticate", "connection", "te", "upgrade",
	"keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate",
	"cache-control", "expect", "max-forwards", "age", "date", "location", "retry-after", "vary",
	"via", "ratelimit", "ratelimit-policy"};

/* Fields that nodes of a fleet send to each other and to servers. */
static const char *const own_names[] = {"sluice-fence", "sluice-hop"};

static bool is_one_of(const char *const *names, size_t count, struct slice name)
{
	for (size_t i = 0; i < count; i++) {
		if (slice_equal_nocase(name, slice_of(names[i])))
			return true;
	}
	return false;
}

static bool is_listed(const struct conf_text_list *list, struct slice name)
{
	return list && is_one_of(list->items, list->count, name);
}

static bool is_set(const struct conf_fields *set, struct slice name)
{
	for (size_t i = 0; set && i < set->count; i++) {
		if (slice_equal_nocase(
			    name, (struct slice){set->items[i].name, set->items[i].name_len}))
			return true;
	}
	return false;
}

static bool passes(const struct http_trailer_rules *rules, struct slice name)
{
	if (is_listed(rules->removed, name) || is_set(rules->set, name) ||
		is_one_of(own_names, COUNT(own_names), name))
		return false;
	if (!rules->added)
		return !is_one_of(response_refused, COUNT(response_refused), name);
	return is_one_of(request_names, COUNT(request_names), name) ||
	       is_listed(rules->added, name);
}

void http_trailers_put(
	struct http_out *out, struct slice trailers, const struct http_trailer_rules *rules)
{
	while (trailers.len > 0) {
		const char *end = memchr(trailers.at, '\n', trailers.len);
		size_t line = end ? (size_t)(end - trailers.at) + 1 : trailers.len;
		const char *colon = memchr(trailers.at, ':', line);

		if (colon &&
			passes(rules, (struct slice){trailers.at, (size_t)(colon - trailers.at)}))
			http_out_slice(out, (struct slice){trailers.at, line});
		trailers.at += line;
		trailers.len -= line;
	}
}
