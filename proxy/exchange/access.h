/* An exchange's line in the access log (exchange/access.c). */
#ifndef EXCHANGE_ACCESS_H
#define EXCHANGE_ACCESS_H

struct exchange;

/* When it is over. */
void exchange_log(struct exchange *exchange);

#endif
