#include "http/problem.h"

#include "http/changes.h"
#include "http/message.h"
#include "http/out.h"
#include "http/status.h"

#define QUOTA_TYPE  "https://iana.org/assignments/http-problem-types#quota-exceeded"
#define QUOTA_TITLE "Request cannot be satisfied as assigned quota has been exceeded"

/* draft-ietf-httpapi-ratelimit-headers */
#define REDUCED_TYPE  "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
#define REDUCED_TITLE "Request cannot be satisfied due to temporary server capacity constraints"

#define QUOTA_DETAIL "Rate limit exceeded; retry after the time in Retry-After."

/* What is said when the caller says nothing more exact. */
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

/* What comes before the policies, or before the wait where there are none. */
static void put_body_front(struct http_out *out, const struct http_problem *problem)
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

static void put_body(struct http_out *out, const struct http_problem *problem)
{
	if (problem->status == 429 && problem->policy_count > 0 && problem->detail.len == 0)
		/* What nearly all refusals begin with, in one piece. */
		http_out_slice(out, SLICE("{\"type\":\"" QUOTA_TYPE "\",\"title\":\"" QUOTA_TITLE
					  "\",\"status\":429,\"detail\":\"" QUOTA_DETAIL
					  "\",\"violated-policies\":["));
	else
		put_body_front(out, problem);
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

static void put_field(struct http_out *out, struct slice name, struct slice value)
{
	if (value.len == 0 || name.len == 0)
		return;
	http_out_slice(out, name);
	http_out_slice(out, SLICE(": "));
	http_out_slice(out, value);
	http_out_slice(out, SLICE("\r\n"));
}

static void put_location(struct http_out *out, const struct http_location *location)
{
	http_out_slice(out, SLICE("Location: https://"));
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
	http_out_slice(out, SLICE("\r\n"));
}

static void put_retry_after(struct http_out *out, uint64_t wait_ms)
{
	uint64_t seconds = wait_ms / 1000 + (wait_ms % 1000 != 0);

	http_out_slice(out, SLICE("Retry-After: "));
	http_out_number(out, seconds > 0 ? seconds : 1);
	http_out_slice(out, SLICE("\r\n"));
}

static void put_status_line(struct http_out *out, unsigned status)
{
	struct slice line = http_status_line(status);

	http_out_slice(out, SLICE("HTTP/1.1 "));
	if (line.len > 0) {
		http_out_slice(out, line);
	} else {
		http_out_number(out, status);
		http_out_char(out, ' ');
	}
	http_out_slice(out, SLICE("\r\n"));
}

/* What says what the answer is stays, whatever is set for the server's answers. */
static bool is_kept(struct slice name)
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

static void put_head(struct http_out *out, const struct http_problem *problem, size_t body_bytes)
{
	put_status_line(out, problem->status);
	char *own = out->at;
	put_field(out, SLICE("Date"), problem->date);
	if (problem->changes)
		http_changes_filter(out, own, problem->changes);
	if (problem->content.at)
		http_out_slice(
			out, SLICE("Content-Type: application/octet-stream\r\nContent-Length: "));
	else if (body_bytes > 0)
		http_out_slice(
			out, SLICE("Content-Type: application/problem+json\r\nContent-Length: "));
	else
		http_out_slice(out, SLICE("Content-Length: "));
	http_out_number(out, body_bytes);
	http_out_slice(out, SLICE("\r\nCache-Control: no-store\r\n"));
	if (problem->retry_after_ms != HTTP_PROBLEM_NO_RETRY)
		put_retry_after(out, problem->retry_after_ms);
	if (problem->location)
		put_location(out, problem->location);
	put_field(out, SLICE("Allow"), problem->allow);
	put_field(out, SLICE("WWW-Authenticate"), problem->challenge);
	own = out->at;
	http_out_slice(out, problem->fields);
	put_field(out, problem->request_id_field, problem->request_id);
	if (problem->changes) {
		http_changes_filter(out, own, problem->changes);
		http_changes_put(out, problem->changes, is_kept);
	}
	if (problem->connection == HTTP_PROBLEM_CLOSE)
		http_out_slice(out, SLICE("Connection: close\r\n"));
	else if (problem->connection == HTTP_PROBLEM_KEEP_ALIVE)
		http_out_slice(out, SLICE("Connection: keep-alive\r\n"));
	http_out_slice(out, SLICE("\r\n"));
}

size_t http_problem_write(
	char *out, size_t capacity, const struct http_problem *problem, size_t *body_bytes)
{
	char body[HTTP_PROBLEM_BYTES];
	struct http_out body_out = http_out_over(body, sizeof(body));
	struct http_out reply = http_out_over(out, capacity);

	if (problem->content.at)
		http_out_slice(&body_out, problem->content);
	else if (problem->status != 200)
		put_body(&body_out, problem);
	if (body_out.overflow)
		return 0;
	size_t length = (size_t)(body_out.at - body);
	put_head(&reply, problem, length);
	if (!problem->head)
		http_out_slice(&reply, (struct slice){body, length});
	if (body_bytes)
		*body_bytes = problem->head ? 0 : length;
	return reply.overflow ? 0 : (size_t)(reply.at - out);
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
