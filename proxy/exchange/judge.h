/* A request that has just been read, by the rules of HTTP and by its route (exchange/judge.c). */
#ifndef EXCHANGE_JUDGE_H
#define EXCHANGE_JUDGE_H

struct exchange;

/* Its head is complete in the connection's buffer (`bytes` of it): judge it and set it on its way.
 */
void exchange_begin(struct exchange *exchange, const char *bytes);

#endif
