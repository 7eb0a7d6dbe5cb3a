#!/usr/bin/perl

# The tests in C of src/watches, t/unit/watch.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/../lib";

use Unit;

run_tests('ngx_etcd_test_watch_module');
