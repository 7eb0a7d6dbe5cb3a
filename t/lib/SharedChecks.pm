package SharedChecks;

# Several nginxes that share the checks of an upstream "api" by "share=".
#
#     SharedChecks::config('share=/observer ...', workers => 2)
#                         # a configuration with %%INTERVAL%%, %%PORT%%; also
#                         # endpoints => '%%ETCD%%', host => '127.0.0.1'
#     SharedChecks::role($nginx)                    # 'observes' and so on
#     SharedChecks::roles(@nginxes)                 # 'observes follows'
#     SharedChecks::state_of($nginx, $backend)
#     SharedChecks::verdicts(@nginxes)
#     SharedChecks::become($backend, 'unhealthy', @nginxes)

use strict;
use warnings;

use Exporter 'import';
use List::Util qw(sum);

use Upstream;
use Wait;

our @EXPORT = qw(become role roles state_of upstream verdicts);


sub config {
    my ($parameters, %options) = @_;

    my $workers = $options{workers} // 1;
    my $endpoints = $options{endpoints} // '%%ETCD%%';
    my $host = $options{host} // '127.0.0.1';

    return <<"EOC";

worker_processes $workers;

etcd {
    endpoints $endpoints;
}

http {
    upstream api {
        etcd_members /api/ max_fails=0;
        etcd_check http interval=%%INTERVAL%%s timeout=500ms fails=2 fast=50ms
                   $parameters;
    }

    server {
        listen $host:%%PORT%%;

        location / { proxy_pass http://api; }
        location /status { etcd_status; }
    }
}

EOC
}


sub upstream { Upstream->new($_[0], 'api') }
sub role { upstream($_[0])->status->{check_role} // '' }
sub roles { join(' ', map { role($_) } @_) }


sub state_of {
    my ($nginx, $backend) = @_;

    return (upstream($nginx)->member($backend->address) // {})->{state} // '';
}


# how often the nginxes have taken a member for failed

sub verdicts {
    return sum(map { $_->count_log(qr/check of member .* has failed/) } @_);
}


# Waits until each of the nginxes has that state of a member, for so many
# seconds.

our $patience = 20;

sub become {
    my ($backend, $state, @nginxes) = @_;

    return wait_for {
        !grep { state_of($_, $backend) ne $state } @nginxes
    } $patience, "$backend->{name} is $state";
}


1;
