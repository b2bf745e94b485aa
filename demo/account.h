/* The demo's bank account: one balance that never goes below zero, and a count of its changes. */
#ifndef DEMO_ACCOUNT_H
#define DEMO_ACCOUNT_H

#include <stdint.h>

#define ACCOUNT_AMOUNT_MAX 1000000000000LL

struct account {
	int64_t balance;
	int64_t version; /* changes so far: tells in which order two of them were made */
};

/*
 * `amount` is 1 to ACCOUNT_AMOUNT_MAX, else EINVAL. ERANGE when the balance would go below zero or
 * above what an integer of JSON carries exactly (2^53 - 1). 0 when done; else nothing has changed.
 */
int account_deposit(struct account *account, int64_t amount);
int account_withdraw(struct account *account, int64_t amount);

#endif
