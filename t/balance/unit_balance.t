#!/usr/bin/perl

# The tests in C of src/balance and src/checks, t/unit/balance.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Unit;

run_tests('ngx_etcd_test_balance_module');
