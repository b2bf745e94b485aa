#include "http/grpc.h"

/* Digits of grpc-timeout at most. */
#define TIMEOUT_DIGITS 8

bool http_is_grpc(const struct http_head *request)
{
	static const char type[] = "application/grpc";
	struct slice value = http_head_find_name(request, SLICE("content-type"));
	size_t len = sizeof(type) - 1;

	if (value.len < len ||
		!slice_equal_nocase((struct slice){value.at, len}, (struct slice){type, len}))
		return false;
	return value.len == len || value.at[len] == '+' || value.at[len] == ';' ||
	       value.at[len] == ' ';
}

static const struct {
	unsigned status, grpc;
	struct slice message;
} rows[] = {
	{400, 13, SLICE("Malformed request")},
	{401, 16, SLICE("Missing or unknown credentials")},
	{403, 7, SLICE("Not allowed")},
	{404, 12, SLICE("No such service")},
	{405, 12, SLICE("Method not allowed")},
	{408, 4, SLICE("The request did not come in time")},
	{413, 8, SLICE("Request too large")},
	{414, 8, SLICE("Path too long")},
	{417, 12, SLICE("Unknown expectation")},
	{429, 8, SLICE("Rate limit exceeded")},
	{431, 8, SLICE("Metadata too large")},
	{501, 12, SLICE("Not implemented")},
	{502, 14, SLICE("The server sent no valid response")},
	{503, 14, SLICE("Overloaded or unavailable")},
	{504, 4, SLICE("The server did not answer in time")},
};

static unsigned row_of(unsigned status)
{
	unsigned i = 0;

	while (i < sizeof(rows) / sizeof(rows[0]) && rows[i].status != status)
		i++;
	return i;
}

unsigned http_grpc_status(unsigned status)
{
	unsigned row = row_of(status);

	return row < sizeof(rows) / sizeof(rows[0]) ? rows[row].grpc : 2;
}

/* Any bytes: what a field can't carry is percent-encoded. */
static void put_message(struct field_sink *sink, struct slice text)
{
	static const char digits[] = "0123456789ABCDEF";

	field_begin(sink, SLICE("grpc-message"));
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.at[i];
		if (c >= ' ' && c < 0x7f && c != '%') {
			http_out_char(&sink->out, (char)c);
			continue;
		}
		http_out_char(&sink->out, '%');
		http_out_char(&sink->out, digits[c >> 4]);
		http_out_char(&sink->out, digits[c & 15]);
	}
	field_end(sink);
}

void http_grpc_put_fields(struct field_sink *sink, const struct http_problem *problem)
{
	unsigned row = row_of(problem->status);
	bool is_known = row < sizeof(rows) / sizeof(rows[0]);
	struct slice message = problem->detail;

	if (message.len == 0)
		message = is_known ? rows[row].message : SLICE("Refused");
	field_put(sink, SLICE("Content-Type"), SLICE("application/grpc"));
	if (sink->major == 1)
		field_put(sink, SLICE("Content-Length"), SLICE("0"));
	field_put_number(sink, SLICE("grpc-status"), http_grpc_status(problem->status));
	put_message(sink, message);
	if (problem->retry_after_ms != HTTP_PROBLEM_NO_RETRY)
		field_put_number(sink, SLICE("grpc-retry-pushback-ms"), problem->retry_after_ms);
}

uint64_t http_grpc_timeout_ms(const struct http_head *request)
{
	static const struct {
		char unit;
		uint64_t us;
	} units[] = {{'H', 3600000000}, {'M', 60000000}, {'S', 1000000}, {'m', 1000}, {'u', 1},
		{'n', 0}};
	struct slice value = http_head_find_name(request, SLICE("grpc-timeout"));
	uint64_t number = 0;

	if (value.len < 2 || value.len > TIMEOUT_DIGITS + 1)
		return 0;
	for (size_t i = 0; i + 1 < value.len; i++) {
		if (value.at[i] < '0' || value.at[i] > '9')
			return 0;
		number = number * 10 + (uint64_t)(value.at[i] - '0');
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (value.at[value.len - 1] != units[i].unit)
			continue;
		uint64_t us = units[i].us > 0 ? number * units[i].us : number / 1000;
		return us > 0 ? (us + 999) / 1000 : 1;
	}
	return 0;
}
