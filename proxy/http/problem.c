#include "http/problem.h"

#include "http/message.h"
#include "http/out.h"
#include "http/status.h"

#define QUOTA_TYPE  "https://iana.org/assignments/http-problem-types#quota-exceeded"
#define QUOTA_TITLE "Request cannot be satisfied as assigned quota has been exceeded"

/* draft-ietf-httpapi-ratelimit-headers */
#define REDUCED_TYPE  "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
#define REDUCED_TITLE "Request cannot be satisfied due to temporary server capacity constraints"

#define QUOTA_DETAIL "Rate limit exceeded; retry after the time in Retry-After."

/* The detail where the caller gives none. */
static struct slice default_detail(unsigned status)
{
	switch (status) {
	case 308:
		return SLICE("This host is served by https only.");
	case 400:
		return SLICE("The request is not valid HTTP.");
	case 401:
		return SLICE("A caller's key is required.");
	case 403:
		return SLICE("This caller is denied.");
	case 404:
		return SLICE("No route serves this host and path.");
	case 405:
		return SLICE("The method is not allowed for this path.");
	case 408:
		return SLICE("The request did not arrive in time.");
	case 413:
		return SLICE("The request's body is too large.");
	case 414:
		return SLICE("The request's target is too long.");
	case 417:
		return SLICE("The expectation is not supported.");
	case 421:
		return SLICE("The certificate of this connection is not valid for this host.");
	case 429:
		return SLICE(QUOTA_DETAIL);
	case 431:
		return SLICE("The request's header fields are too large.");
	case 501:
		return SLICE("The method is not supported.");
	case 502:
		return SLICE("The server behind this proxy sent no valid response.");
	case 503:
		return SLICE("The server behind this proxy cannot accept the request now.");
	case 504:
		return SLICE("The server behind this proxy did not answer in time.");
	case 505:
		return SLICE("The HTTP version is not supported.");
	default:
		return SLICE_NONE;
	}
}

static void put_member(struct http_out *out, struct slice name, struct slice value)
{
	http_out_slice(out, name);
	http_out_json(out, value);
}

/* A text of our own, with nothing in it to escape. */
static void put_own_text(struct http_out *out, struct slice name, struct slice text)
{
	http_out_slice(out, name);
	http_out_char(out, '"');
	http_out_slice(out, text);
	http_out_char(out, '"');
}

/* The text before the policies, or before the wait where there are none. */
static void put_front(struct http_out *out, const struct http_problem *problem)
{
	if (problem->policy_count > 0) {
		http_out_slice(
			out, SLICE("{\"type\":\"" QUOTA_TYPE "\",\"title\":\"" QUOTA_TITLE "\""));
	} else if (problem->reduced_capacity) {
		http_out_slice(out,
			SLICE("{\"type\":\"" REDUCED_TYPE "\",\"title\":\"" REDUCED_TITLE "\""));
	} else {
		/* RFC 9457 section 4.2.1: about:blank says nothing beyond the status. */
		put_own_text(out, SLICE("{\"type\":\"about:blank\",\"title\":"),
			http_status_reason(problem->status));
	}
	http_out_slice(out, SLICE(",\"status\":"));
	http_out_number(out, problem->status);
	if (problem->detail.len > 0)
		put_member(out, SLICE(",\"detail\":"), problem->detail);
	else if (default_detail(problem->status).len > 0)
		put_own_text(out, SLICE(",\"detail\":"), default_detail(problem->status));
	if (problem->policy_count > 0)
		http_out_slice(out, SLICE(",\"violated-policies\":["));
}

void http_problem_put_content(struct http_out *out, const struct http_problem *problem)
{
	if (problem->content.at)
		http_out_slice(out, problem->content);
	if (problem->status == 200)
		return;
	if (problem->status == 429 && problem->policy_count > 0 && problem->detail.len == 0)
		/* The beginning of nearly all refusals, in one piece. */
		http_out_slice(out, SLICE("{\"type\":\"" QUOTA_TYPE "\",\"title\":\"" QUOTA_TITLE
					  "\",\"status\":429,\"detail\":\"" QUOTA_DETAIL
					  "\",\"violated-policies\":["));
	else
		put_front(out, problem);
	if (problem->policy_count > 0) {
		for (size_t i = 0; i < problem->policy_count; i++)
			put_member(out, i > 0 ? SLICE(",") : SLICE(""), problem->policies[i]);
		http_out_char(out, ']');
	}
	if (problem->retry_after_ms != HTTP_PROBLEM_NO_RETRY) {
		http_out_slice(out, SLICE(",\"retry-after-ms\":"));
		http_out_number(out, problem->retry_after_ms);
	}
	http_out_slice(out, SLICE("}\n"));
}

static void put_retry_after(struct field_sink *sink, uint64_t wait_ms)
{
	uint64_t seconds = wait_ms / 1000 + (wait_ms % 1000 != 0);

	field_put_number(sink, SLICE("Retry-After"), seconds > 0 ? seconds : 1);
}

static void put_location(struct field_sink *sink, const struct http_location *location)
{
	struct http_out *out = &sink->out;

	field_begin(sink, SLICE("Location"));
	http_out_slice(out, SLICE("https://"));
	http_out_slice(out, location->host);
	if (location->port != 443) {
		http_out_char(out, ':');
		http_out_number(out, location->port);
	}
	http_out_slice(out, location->path);
	if (location->has_query) {
		http_out_char(out, '?');
		http_out_slice(out, location->query);
	}
	field_end(sink);
}

static void put_given(struct field_sink *sink, struct slice name, struct slice value)
{
	if (value.len > 0)
		field_put(sink, name, value);
}

void http_problem_put_fields(
	struct field_sink *sink, const struct http_problem *problem, size_t content_bytes)
{
	if (problem->content.at)
		field_put(sink, SLICE("Content-Type"), SLICE("application/octet-stream"));
	else if (content_bytes > 0)
		field_put(sink, SLICE("Content-Type"), SLICE("application/problem+json"));
	field_put_number(sink, SLICE("Content-Length"), content_bytes);
	field_put(sink, SLICE("Cache-Control"), SLICE("no-store"));
	if (problem->retry_after_ms != HTTP_PROBLEM_NO_RETRY)
		put_retry_after(sink, problem->retry_after_ms);
	if (problem->location)
		put_location(sink, problem->location);
	put_given(sink, SLICE("Allow"), problem->allow);
	put_given(sink, SLICE("WWW-Authenticate"), problem->challenge);
}

bool http_problem_keeps(struct slice name)
{
	static const struct slice kept[] = {{"content-type", 12}, {"cache-control", 13},
		{"retry-after", 11}, {"location", 8}, {"allow", 5}, {"www-authenticate", 16},
		{"etag", 4}, {"last-modified", 13}, {"content-encoding", 16}, {"expires", 7}};

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		if (slice_equal_nocase(name, kept[i]))
			return true;
	}
	return false;
}

size_t http_allow_text(uint64_t methods, char out[static HTTP_ALLOW_BYTES])
{
	struct http_out text = http_out_over(out, HTTP_ALLOW_BYTES);

	for (unsigned i = 0; i < HTTP_METHOD_OTHER; i++) {
		if (!(methods >> i & 1))
			continue;
		if (text.at > out)
			http_out_slice(&text, SLICE(", "));
		http_out_slice(&text, slice_of(http_method_name((enum http_method)i)));
	}
	return (size_t)(text.at - out);
}
