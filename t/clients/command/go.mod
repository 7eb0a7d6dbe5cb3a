module nginx-etcd/clients/command

go 1.24.0
