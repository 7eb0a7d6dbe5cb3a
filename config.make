cat << END                                                    >> $NGX_MAKEFILE

$NGX_OBJS/etcd/ngx_etcd_proto.pb-c.h: $ngx_addon_dir/proto/etcd.proto
	mkdir -p $NGX_OBJS/etcd
	cp $ngx_addon_dir/proto/etcd.proto $NGX_OBJS/etcd/ngx_etcd_proto.proto
	cd $NGX_OBJS/etcd && $ngx_etcd_protoc --c_out=. ngx_etcd_proto.proto

$NGX_OBJS/etcd/ngx_etcd_proto.pb-c.c: $NGX_OBJS/etcd/ngx_etcd_proto.pb-c.h

$NGX_OBJS/etcd/ngx_http_etcd_page_text.h: \
	`ls $ngx_addon_dir/src/http/*.html $ngx_addon_dir/src/http/*.css \
	    $ngx_addon_dir/src/http/*.js | tr '\n' ' '` \
	$ngx_addon_dir/tools/page
	mkdir -p $NGX_OBJS/etcd
	perl $ngx_addon_dir/tools/page \
		$ngx_addon_dir/src/http/ngx_http_etcd_page.html > \$@.new
	mv \$@.new \$@

END
