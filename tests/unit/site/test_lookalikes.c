/* Look-alikes: fields that a server may take for those that matter. Random names of few letters,
 * held to a plain comparison. */
#include "../gate/conf_of.h"
#include "../http/head.h"
#include "../random.h"
#include "site/lookalikes.h"
#include "tests/unit/suite.h"

static struct lookalikes *of(const struct conf *conf)
{
	struct lookalikes *lookalikes = lookalikes_new(conf);

	assert_non_null(lookalikes);
	return lookalikes;
}

/* Is a field of this name dropped? */
static bool drops(const struct lookalikes *lookalikes, const char *name)
{
	struct http_head head;
	char text[256];

	snprintf(text, sizeof(text), "%s: 1\n", name);
	head_of(&head, text);
	lookalikes_drop(lookalikes, &head);
	if (head.fields[0].hop)
		assert_true(head.ids & HTTP_FIELD_BIT(UNDERSCORED));
	return head.fields[0].hop;
}

static void names_that_matter_without_any_setting(void **state)
{
	const struct conf *conf = conf_of("[route r]\nupstream = u\n");
	struct lookalikes *lookalikes = of(conf);

	(void)state;
	assert_true(drops(lookalikes, "Content_Type"));
	assert_true(drops(lookalikes, "content_length"));
	assert_true(drops(lookalikes, "X_Forwarded_For"));
	assert_true(drops(lookalikes, "X-Forwarded_For"));
	assert_true(drops(lookalikes, "TRANSFER_ENCODING"));
	assert_false(drops(lookalikes, "X-Forwarded-For"));
	assert_false(drops(lookalikes, "X_Api_Key"));
	assert_false(drops(lookalikes, "X_Forwarded_Fo"));
	assert_false(lookalikes_need_all(lookalikes));
	lookalikes_free(lookalikes);
	conf_release(conf);
}

static void names_that_settings_make_matter(void **state)
{
	static const char *const inis[] = {
		"[limit l]\nkey = ip + header:X-Key\nrate = 1 per 1s\n[route r]\nupstream = u\n"
		"limits = l\n",
		"[limit l]\nkey = ip | header:X-Key\nrate = 1 per 1s\n[route r]\nupstream = u\n"
		"limits = l\n",
		"[plans]\nkey = header:X-Key\n[plan default]\n[route r]\nupstream = u\nlimits = "
		"plan\nsession = ip\n",
		"[route r]\nupstream = u\nsession = header:X-Key\n",
		"[route r]\nupstream = u\nrequest_header_set = X-Key: 1\n",
		"[route r]\nupstream = u\nrequest_header_remove = X-Key\n",
		"[sluice]\nrequest_id = X-Key\n[route r]\nupstream = u\n",
		"[upstream h]\nserver = 127.0.0.1:3\nbalance = hash\nhash_key = header:X-Key\n"
		"[route r]\nupstream = h\n[route s]\nupstream = u\npath = /s\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(inis) / sizeof(inis[0]); i++) {
		const struct conf *conf = conf_of(inis[i]);
		struct lookalikes *lookalikes = of(conf);
		if (!drops(lookalikes, "x_KEY"))
			fail_msg("x_KEY passes with\n%s", inis[i]);
		assert_false(drops(lookalikes, "X-Key"));
		assert_false(drops(lookalikes, "X_Other"));
		lookalikes_free(lookalikes);
		conf_release(conf);
	}
}

/* One with an underscore makes every head be looked at; what matters by itself still passes. */
static void known_names_pass_beside_underscored_ones(void **state)
{
	const struct conf *conf =
		conf_of("[route r]\nupstream = u\nrequest_header_set = X_Key: 1\n");
	struct lookalikes *lookalikes = of(conf);

	(void)state;
	assert_true(lookalikes_need_all(lookalikes));
	assert_true(drops(lookalikes, "X-Key"));
	assert_false(drops(lookalikes, "X_Key"));
	assert_false(drops(lookalikes, "Content-Length"));
	assert_false(drops(lookalikes, "Content-Type"));
	assert_true(drops(lookalikes, "Content_Length"));
	lookalikes_free(lookalikes);
	conf_release(conf);
}

static char folded(char c)
{
	return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* The same to a server that makes variables of names, though not the same name. */
static bool is_lookalike(const char *name, const char *known)
{
	if (strlen(name) != strlen(known) || strcasecmp(name, known) == 0)
		return false;
	for (size_t i = 0; name[i]; i++) {
		if (folded(name[i]) != folded(known[i]))
			return false;
	}
	return true;
}

static void any_name_is_dropped_or_passed_as_a_plain_comparison_says(void **state)
{
	static const char *const knowns[] = {"A-b", "a_b", "A_b-", "--", "b"};
	struct random random = random_begin("names");

	(void)state;
	for (size_t k = 0; k < sizeof(knowns) / sizeof(knowns[0]); k++) {
		char ini[128];
		snprintf(ini, sizeof(ini), "[route r]\nupstream = u\nrequest_header_set = %s: 1\n",
			knowns[k]);
		const struct conf *conf = conf_of(ini);
		struct lookalikes *lookalikes = of(conf);
		unsigned dropped = 0;
		assert_int_equal(lookalikes_need_all(lookalikes), strchr(knowns[k], '_') != NULL);
		for (int round = 0; round < 20000; round++) {
			char name[6] = "";
			for (size_t i = 0, len = 1 + random_below(&random, 4); i < len; i++)
				name[i] = "abAB-_"[random_below(&random, 6)];
			bool expected = is_lookalike(name, knowns[k]);
			if (drops(lookalikes, name) != expected)
				fail_msg("%s beside %s: %s", name, knowns[k],
					expected ? "passes" : "is dropped");
			dropped += expected;
		}
		assert_true(dropped > 0 || strcmp(knowns[k], "b") == 0);
		lookalikes_free(lookalikes);
		conf_release(conf);
	}
}

UNIT_SUITE(test_lookalikes)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_that_matter_without_any_setting),
		cmocka_unit_test(names_that_settings_make_matter),
		cmocka_unit_test(known_names_pass_beside_underscored_ones),
		cmocka_unit_test(any_name_is_dropped_or_passed_as_a_plain_comparison_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
