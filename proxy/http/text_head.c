#include "http/text_head.h"

#include "http/status.h"

void text_head_request(struct field_sink *sink, struct slice method, struct slice target)
{
	http_out_slice(&sink->out, method);
	http_out_char(&sink->out, ' ');
	http_out_slice(&sink->out, target);
	http_out_slice(&sink->out, SLICE(" HTTP/1.1\r\n"));
}

void text_head_status(struct field_sink *sink, unsigned status, struct slice reason)
{
	struct slice line = reason.at ? SLICE_NONE : http_status_line(status);

	http_out_slice(&sink->out, SLICE("HTTP/1.1 "));
	if (line.len > 0) {
		http_out_slice(&sink->out, line);
	} else { /* with both of its blanks, also where there is no reason */
		http_out_number(&sink->out, status);
		http_out_char(&sink->out, ' ');
		http_out_slice(&sink->out, reason);
	}
	http_out_slice(&sink->out, SLICE("\r\n"));
}
