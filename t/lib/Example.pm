package Example;

# The configurations in conf-examples/, with modules, ports and paths of the
# test.
#
#     for my $name (Example::names()) { ... }          # 'discovery', ...
#     my $nginx = Nginx->new(etcd => $etcd);
#     $nginx->start(Example::text('discovery', 'etcd'));
#
# The first port to listen on is 8080, which becomes %%PORT%%; 5432 becomes
# %%PORT_5432%%.  Files in /etc/nginx/etcd and /var/lib/nginx become some in
# %%DIR%%.  With 'etcd' its endpoint is %%ETCD%%.

use strict;
use warnings;

use Cwd qw(abs_path);
use File::Basename qw(dirname);

use Nginx;
use Tls;

my ($ca, $cert, $crl);
my $dir = abs_path(dirname(__FILE__) . '/../../conf-examples');


sub names { sort map { m{([^/]+)\.conf$} } glob("$dir/*.conf") }


sub text {
    my ($name, $etcd) = @_;

    open(my $file, '<', "$dir/$name.conf") or die "open $name.conf: $!\n";

    my $text = adapt(do { local $/; <$file> });

    $text =~ s{https?://127\.0\.0\.1:2379;}{%%ETCD%%;} if $etcd;

    return $text;
}


# any configuration, with the ports and paths of the test

sub adapt {
    my ($text) = @_;

    $text =~ s/^load_module .*\n//mg;
    $text =~ s/listen (?:127\.0\.0\.1:)?8080\b/listen 127.0.0.1:%%PORT%%/g;
    $text =~ s/listen[ ](?:127\.0\.0\.1:)?(\d+)\b(?!\.)
              /listen 127.0.0.1:%%PORT_$1%%/gx;
    $text =~ s{/etc/nginx/etcd\b|/var/lib/nginx\b}{%%DIR%%}g;

    return $text;
}


# Runs nginx -t, with the files that the configuration names: (1 or 0, output)

sub check {
    my ($text) = @_;

    my $nginx = Nginx->new();

    $ca //= Tls->new('ca');
    $cert //= $ca->issue('client');
    $crl //= $ca->crl;

    $nginx->write_secret($_, "secret\n")
        for 'etcd.password', 'etcd.token', 'client.password';
    Tls::join_files($nginx->dir . '/ca.crt', $ca->cert);
    Tls::join_files($nginx->dir . '/ca.crl', $crl);
    $cert->install($nginx->dir, $_) for qw(client default);

    return $nginx->configtest($text);
}


1;
