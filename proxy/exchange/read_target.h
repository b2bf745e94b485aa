/*
 * The facts in a request's target and Host: the host by which routes are found, the authority for
 * its server, the path in its normal form, and the path by which keys know it.
 */
#ifndef EXCHANGE_READ_TARGET_H
#define EXCHANGE_READ_TARGET_H

struct exchange;

/* Fills in target, host, authority, path and key_path. Returns 0 or the status to refuse with. */
unsigned read_target(struct exchange *exchange);

#endif
