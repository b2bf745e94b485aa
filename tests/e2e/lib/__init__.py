"""The end-to-end harness: a TAP runner, sluice under test, scripted clients and origins, real peers."""
