/* Heads of responses: the parser, then the framing of what it accepts. */
#include "fuzz_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge(struct http_head *head)
{
	static const enum http_method methods[] = {HTTP_METHOD_GET, HTTP_METHOD_HEAD};
	struct http_framing framing;

	MUST(memcmp(head->base, "HTTP/1.", 7) == 0 && head->base[8] == ' ');
	MUST(head->status >= 100 && head->status <= 999);
	MUST(head->base[9] == '0' + head->status / 100 &&
		head->base[11] == '0' + head->status % 10);
	for (size_t i = 0; i < 2; i++) {
		if (!http_frame_response(head, methods[i], &framing))
			continue;
		bool bodiless = methods[i] == HTTP_METHOD_HEAD || head->status < 200 ||
				head->status == 204 || head->status == 304;
		MUST(!bodiless || framing.body == HTTP_BODY_NONE || head->status == 101);
		MUST(framing.body != HTTP_BODY_CHUNKED ||
			http_head_has(head, HTTP_FIELD_TRANSFER_ENCODING));
		MUST(framing.body != HTTP_BODY_LENGTH || framing.has_length);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_message(data, size, false, judge);
	return 0;
}
