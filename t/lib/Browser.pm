package Browser;

# A headless Chromium with one page, driven by chromedriver.
#
#     my $browser = Browser->start();
#     $browser->open('http://127.0.0.1:8080/');
#     $browser->execute('return document.title');   # a function's body
#     $browser->texts('#members td');               # of elements that are seen
#     $browser->text('#members td');                # the same, joined by '|'
#     $browser->reads('#members td', 'TEXT', 'NAME');  # a test that waits
#     $browser->click('#pause');
#     $browser->press('/');                         # where the focus is
#     $browser->resize(375, 800);
#     $browser->scheme('dark');                     # what the user prefers
#     $browser->console;                            # what it complained about
#     $browser->requests;                           # URLs it has asked for
#     $browser->picture('/tmp/page.png');
#
# TEST_KEEP=1 leaves a picture of the end beside the other files of the test.

use strict;
use warnings;

use JSON::PP;
use MIME::Base64;

use Becomes;
use Finish;
use Http;
use Port;
use Process;
use Wait;

use constant ELEMENT => 'element-6066-11e4-a52e-4f735466cecf';

my $count = 0;
my $json = JSON::PP->new->utf8->allow_nonref;


sub start {
    my ($class) = @_;

    my $port = free_port();
    my $name = 'browser' . ++$count;

    my $self = bless {
        dir  => test_dir() . "/$name",
        log  => test_dir() . "/$name.log",
        http => Http->new($port, timeout => 60),
        requests => [],
        console  => [],
    }, $class;

    $self->{pid} = spawn($self->{log}, 'chromedriver', "--port=$port");
    Finish::later($self);

    wait_for { $self->{http}->get('/status')->{body} =~ /"ready":true/ } 30,
        'chromedriver' or die "no chromedriver, see $self->{log}\n";

    my $session = $self->call('/session', {
        capabilities => { alwaysMatch => $self->capabilities() },
    });

    $self->{session} = "/session/$session->{sessionId}";

    return $self;
}


# Chromium makes no requests of its own.

sub capabilities {
    my ($self) = @_;

    return {
        'browserName'         => 'chrome',
        'goog:loggingPrefs'   => { browser => 'ALL', performance => 'ALL' },
        'goog:chromeOptions'  => { args => [
            qw(--headless --no-sandbox --disable-gpu --disable-quic
               --no-first-run --disable-background-networking
               --disable-component-update --disable-sync
               --disable-dev-shm-usage --hide-scrollbars --lang=en-GB),
            "--user-data-dir=$self->{dir}", '--window-size=1280,900',
        ] },
    };
}


sub call {
    my ($self, $path, $request) = @_;

    my $answer = $self->{http}->post($path, $json->encode($request // {}));
    my $value = eval { $json->decode($answer->{body})->{value} };

    $answer->{status} == 200
        or die "chromedriver: $path: $answer->{status} ",
               $answer->{error} // $value->{message} // $answer->{body}, "\n";

    return $value;
}


sub ask { $_[0]->call("$_[0]{session}/$_[1]", $_[2]) }


# the protocol of Chromium's own tools

sub tell {
    my ($self, $command, %parameters) = @_;

    return $self->ask('goog/cdp/execute', { cmd => $command,
                                            params => \%parameters });
}


sub scheme {
    my ($self, $scheme) = @_;

    $self->tell('Emulation.setEmulatedMedia', features => [
        { name => 'prefers-color-scheme', value => $scheme },
    ]);
}


# A window has a least width; the width that a page sees of it has none.

sub resize {
    my ($self, $width, $height) = @_;

    $self->tell('Emulation.setDeviceMetricsOverride', width => $width,
                height => $height, deviceScaleFactor => 1,
                mobile => JSON::PP::false);
}


sub open {
    my ($self, $url) = @_;

    $self->{page} = $url;

    return $self->ask('url', { url => $url });
}


sub execute {
    my ($self, $script, @arguments) = @_;

    return $self->ask('execute/sync', { script => $script,
                                        args => \@arguments });
}


sub texts {
    my ($self, $selector) = @_;

    return @{ $self->execute(<<'EOF_SCRIPT', $selector) };
return [...document.querySelectorAll(arguments[0])]
    .filter((element) => element.getClientRects().length)
    .map((element) => element.textContent);
EOF_SCRIPT
}


sub text { join('|', texts(@_)) }


sub reads {
    my ($self, $selector, $wanted, $name) = @_;

    local $Test::Builder::Level = $Test::Builder::Level + 1;

    return becomes { $self->text($selector) } $wanted, $name, 20;
}


sub find {
    my ($self, $selector) = @_;

    return $self->ask('element', { using => 'css selector',
                                   value => $selector })->{+ELEMENT};
}


sub click { $_[0]->ask('element/' . $_[0]->find($_[1]) . '/click') }


# Keys are characters, or characters by which WebDriver names a key: "\x{E004}"
# is Tab.

sub press {
    my ($self, @keys) = @_;

    my @actions = map { ({ type => 'keyDown', value => $_ },
                         { type => 'keyUp', value => $_ }) } @keys;

    $self->ask('actions', { actions => [
        { type => 'key', id => 'keyboard', actions => \@actions },
    ] });
}


# Returns all messages since the start, except those of Chromium about pages of
# an empty window: on a busy machine it reports that fonts come slowly.

sub console {
    my ($self) = @_;

    push @{ $self->{console} },
        map { "$_->{level} $_->{message}" }
        grep { $_->{message} !~ m{^chrome://} } @{ $self->log('browser') };

    return @{ $self->{console} };
}


# Returns the requests of the page, without those of an empty window.

sub requests {
    my ($self) = @_;

    for my $entry (@{ $self->log('performance') }) {
        my $message = decode_json($entry->{message})->{message};
        my $parameters = $message->{params};

        if ($message->{method} eq 'Network.requestWillBeSent'
            && ($parameters->{documentURL} // '') eq $self->{page})
        {
            push @{ $self->{requests} }, $parameters->{request}{url};
        }
    }

    return @{ $self->{requests} };
}


sub log { $_[0]->ask('se/log', { type => $_[1] }) }


sub picture {
    my ($self, $path) = @_;

    CORE::open(my $file, '>:raw', $path) or die "open $path: $!\n";

    print $file decode_base64($self->tell('Page.captureScreenshot')->{data});
    close($file) or die "write $path: $!\n";
}


sub stop {
    my ($self) = @_;

    if ($self->{session}) {
        eval { $self->picture("$self->{dir}.png") } if $ENV{TEST_KEEP};
        $self->{http}->request('DELETE', delete $self->{session});
    }

    if (my $pid = delete $self->{pid}) {
        stop_child($pid);
    }
}


1;
