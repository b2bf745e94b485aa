/* An exchange's line in the access log (relay/access.c). */
#ifndef RELAY_ACCESS_H
#define RELAY_ACCESS_H

struct exchange;

/* When it is over. */
void exchange_log(struct exchange *exchange);

#endif
