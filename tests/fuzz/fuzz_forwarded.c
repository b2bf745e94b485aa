/* Any bytes as fields about hops: no fault, the walk says the same when the last hop is untrusted
 * as when nothing was said, and composing fits or overflows. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "fuzz_head.h"
#include "http/forwarded.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct conf_cidr ten = {.address = {[10] = 0xff, 0xff, 10}, .prefix = 104};
	struct conf_cidrs trusted = {&ten, 1};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)};
	char *bytes = malloc(size > 0 ? size : 1), out_bytes[512];
	struct forwarded_peer peer;
	struct http_head head;
	uint8_t caller[16];

	if (!bytes)
		abort();
	memcpy(bytes, data, size);
	fuzz_head(&head, (struct slice){bytes, size});
	forwarded_peer_init(&peer, (struct sockaddr *)&in, sizeof(in), &trusted);
	forwarded_caller(&head, &peer, &trusted, caller);
	struct http_out out = http_out_over(out_bytes, sizeof(out_bytes));
	forwarded_append_for(&out, &head, &peer);
	forwarded_append_proto(&out, &head, &peer, &trusted, false);
	forwarded_append_host(&out, &head, &peer, &trusted, SLICE("h:80"));
	forwarded_append_port(&out, &head, &peer, &trusted, SLICE("h:80"), false);
	forwarded_append_forwarded(&out, &head, &peer, SLICE("h:80"), true);
	forwarded_append_via(&out, &head, SLICE("sluice"));
	if (out.at > out.end)
		abort();

	in.sin_addr.s_addr = htonl(0x0b000001);
	forwarded_peer_init(&peer, (struct sockaddr *)&in, sizeof(in), &trusted);
	forwarded_caller(&head, &peer, &trusted, caller);
	if (memcmp(caller, peer.address, sizeof(caller)) != 0)
		abort();
	free(bytes);
	return 0;
}
