#include "demo/account.h"

#include <errno.h>
#include <stdbool.h>

#define BALANCE_MAX ((INT64_C(1) << 53) - 1)

static bool is_amount(int64_t amount)
{
	return amount >= 1 && amount <= ACCOUNT_AMOUNT_MAX;
}

int account_deposit(struct account *account, int64_t amount)
{
	if (!is_amount(amount))
		return EINVAL;
	if (account->balance > BALANCE_MAX - amount)
		return ERANGE;
	account->balance += amount;
	account->version++;
	return 0;
}

int account_withdraw(struct account *account, int64_t amount)
{
	if (!is_amount(amount))
		return EINVAL;
	if (account->balance < amount)
		return ERANGE;
	account->balance -= amount;
	account->version++;
	return 0;
}
