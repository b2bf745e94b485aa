/* A set of networks, built once, then only read: of access lists and matches. */
#ifndef GATE_NETWORKS_H
#define GATE_NETWORKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/terms.h"

/* Networks sorted by prefix and address, one run a prefix length: an address is cut to each length
 * there is and searched in that run. */
struct network_set {
	struct conf_cidr *items;
	size_t count;
	struct network_run {
		uint8_t prefix;
		size_t begin, end;
	} runs[129];
	size_t run_count;
};

/* A copy of these in an empty set. False without memory. */
bool network_set_init(struct network_set *set, const struct conf_cidrs *networks);
void network_set_free(struct network_set *set);

bool network_set_has(const struct network_set *set, const uint8_t address[16]);

#endif
