cat << END                                                    >> $NGX_MAKEFILE

$NGX_OBJS/etcd/ngx_etcd_proto.pb-c.h: $ngx_addon_dir/proto/etcd.proto
	mkdir -p $NGX_OBJS/etcd
	cp $ngx_addon_dir/proto/etcd.proto $NGX_OBJS/etcd/ngx_etcd_proto.proto
	cd $NGX_OBJS/etcd && protoc-c --c_out=. ngx_etcd_proto.proto

$NGX_OBJS/etcd/ngx_etcd_proto.pb-c.c: $NGX_OBJS/etcd/ngx_etcd_proto.pb-c.h

END
