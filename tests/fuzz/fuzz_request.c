/* Heads of requests: the parser, then framing, target and authority of what it accepts. */
#include "fuzz_message.h"

#include "http/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge(struct http_head *head)
{
	struct http_framing framing;
	struct http_target target;
	struct slice raw = http_head_target(head);

	MUST(raw.len > 0 && raw.at > head->base && raw.at + raw.len < head->base + head->len);
	MUST(raw.at[-1] == ' ' && memcmp(raw.at + raw.len, " HTTP/1.", 8) == 0);
	for (size_t i = 0; i < raw.len; i++)
		MUST((unsigned char)raw.at[i] > ' ' && raw.at[i] != 127);
	unsigned status = http_frame_request(head, &framing);
	MUST(status == 0 || (status >= 400 && status <= 599));
	if (status == 0) {
		MUST(http_head_count(head, HTTP_FIELD_HOST) == 1 ||
			(head->minor == 0 && http_head_count(head, HTTP_FIELD_HOST) == 0));
		bool chunked = http_head_count(head, HTTP_FIELD_TRANSFER_ENCODING) > 0;
		MUST(!chunked || !http_head_has(head, HTTP_FIELD_CONTENT_LENGTH));
		MUST(framing.body == (chunked ? HTTP_BODY_CHUNKED
					     : http_head_has(head, HTTP_FIELD_CONTENT_LENGTH) &&
							     framing.length > 0
						     ? HTTP_BODY_LENGTH
						     : framing.body));
	}
	if (http_target_parse(raw, head->method, &target))
		MUST(target.path.len == 0 ||
			(target.path.at >= raw.at &&
				target.path.at + target.path.len <= raw.at + raw.len) ||
			target.path.len == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_message(data, size, true, judge);
	return 0;
}
