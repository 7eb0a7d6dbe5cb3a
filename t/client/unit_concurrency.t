#!/usr/bin/perl

# The tests in C of what stands on leases in src/etcd and src/locks,
# t/unit/concurrency.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Unit;

run_tests('ngx_etcd_test_concurrency_module');
