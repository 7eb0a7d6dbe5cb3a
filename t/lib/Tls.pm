package Tls;

# A certificate authority, by openssl.
#
#     my $ca = Tls->new('ca');
#     my $server = $ca->issue('server', san => 'IP:127.0.0.1');
#     my $intermediate = $ca->issue_ca('intermediate');
#     $ca->cert;                       # files, in PEM
#     $server->cert; $server->key;
#     $server->encrypted_key('password');
#     $ca->revoke($server);
#     $ca->crl;                        # a file made anew with every call
#
# start => and end => YYYYMMDDHHMMSSZ set another validity than 30 days from
# now on.  $server->install($dir, 'etcd') copies it to $dir/etcd.crt and
# $dir/etcd.key, each of them at once.

use strict;
use warnings;

use Finish;
use Process;

my $count = 0;

my $config = <<'EOF';
[ca]
default_ca = this

[this]
database = %1$s/index.txt
new_certs_dir = %1$s
certificate = %1$s/ca.crt
private_key = %1$s/ca.key
rand_serial = yes
unique_subject = no
default_md = sha256
default_days = 30
default_crl_days = 30
copy_extensions = copy
policy = any

[any]
commonName = supplied

[req]
distinguished_name = name

[name]
EOF


sub new {
    my ($class, $name) = @_;

    my $self = $class->create($name);

    openssl('req', '-x509', '-days', 30, $self->request($self->{dir}),
            '-addext', 'basicConstraints=critical,CA:true',
            '-addext', 'keyUsage=critical,keyCertSign,cRLSign',
            '-out', $self->cert);

    return $self;
}


sub create {
    my ($class, $name) = @_;

    my $dir = test_dir() . '/tls' . ++$count;

    mkdir($dir) or die "mkdir $dir: $!\n";

    write_file("$dir/index.txt", '');
    write_file("$dir/openssl.cnf", sprintf($config, $dir));

    return bless {
        dir  => $dir,
        name => $name,
        cert => "$dir/ca.crt",
        key  => "$dir/ca.key",
    }, $class;
}


sub cert { $_[0]{cert} }
sub key  { $_[0]{key} }


# a certificate for servers and clients

sub issue {
    my ($self, $name, %options) = @_;

    my $file = "$self->{dir}/" . ++$count . "-$name";
    my $issued = bless { name => $name, cert => "$file.crt",
                         key => "$file.key" }, ref($self);

    $self->sign($issued, $self->{dir}, %options,
                extensions => ['extendedKeyUsage=serverAuth,clientAuth']);

    return $issued;
}


sub issue_ca {
    my ($self, $name) = @_;

    my $issued = ref($self)->create($name);

    $self->sign($issued, $issued->{dir}, extensions => [
        'basicConstraints=critical,CA:true',
        'keyUsage=critical,keyCertSign,cRLSign',
    ]);

    return $issued;
}


sub sign {
    my ($self, $issued, $dir, %options) = @_;

    my @extensions = @{ $options{extensions} };

    push @extensions, "subjectAltName=$options{san}" if $options{san};

    openssl('req', '-new', $issued->request($dir),
            map({ ('-addext', $_) } @extensions),
            '-out', "$issued->{cert}.req");

    openssl('ca', '-batch', '-notext', '-config', "$self->{dir}/openssl.cnf",
            $options{start} ? ('-startdate', $options{start}) : (),
            $options{end} ? ('-enddate', $options{end}) : (),
            '-in', "$issued->{cert}.req", '-out', $issued->cert);
}


sub request {
    my ($self, $dir) = @_;

    return ('-config', "$dir/openssl.cnf", '-newkey', 'ec',
            '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes',
            '-subj', "/CN=$self->{name}", '-keyout', $self->key);
}


sub revoke {
    my ($self, $issued) = @_;

    openssl('ca', '-config', "$self->{dir}/openssl.cnf",
            '-revoke', $issued->cert);
}


sub crl {
    my ($self) = @_;

    my $file = "$self->{dir}/" . ++$count . '.crl';

    openssl('ca', '-gencrl', '-config', "$self->{dir}/openssl.cnf",
            '-out', $file);

    return $file;
}


sub encrypted_key {
    my ($self, $password) = @_;

    openssl('pkey', '-in', $self->key, '-aes256',
            '-passout', "pass:$password", '-out', "$self->{key}.encrypted");

    return "$self->{key}.encrypted";
}


# several files become one at once, as a chain is

sub join_files {
    my ($path, @files) = @_;

    write_file("$path.new", join('', map { read_file($_) } @files));
    rename("$path.new", $path) or die "rename $path: $!\n";

    return $path;
}


sub install {
    my ($self, $dir, $name) = @_;

    join_files("$dir/$name.crt", $self->cert);
    join_files("$dir/$name.key", $self->key);
}


sub read_file {
    my ($path) = @_;

    open(my $file, '<', $path) or die "open $path: $!\n";
    local $/;

    return <$file>;
}


sub write_file {
    my ($path, $text) = @_;

    open(my $file, '>', $path) or die "open $path: $!\n";
    print $file $text;
    close($file) or die "write $path: $!\n";

    return $path;
}


sub openssl {
    my @arguments = @_;

    my ($status, $output) = run('openssl', @arguments);

    $status == 0 or die "openssl @arguments:\n$output\n";
}


1;
